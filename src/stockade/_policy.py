"""The policy: what a run may use and touch. Data that validates itself when it is built."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
)

from stockade._errors import FieldProblem, PolicyError
from stockade._frozen import FrozenDict
from stockade._guarantees import FLOORS, LIMITS, Guarantee, Strength
from stockade._policy_parts import Commands, Environment, Filesystem, Languages, Limits, Part, Security, frozen
from stockade._profiles import DEFAULT_ACCEPT


def _strengths(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError("expected a table of guarantee to the weakest strength that is enough")
    return {_member(Guarantee, key, "guarantee"): _member(Strength, item, "strength") for key, item in value.items()}


def _member(kind: Any, value: Any, word: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{value!r} is no {word}; there are: {', '.join(kind)}") from None


_Accept = Annotated[dict[Guarantee, Strength], BeforeValidator(_strengths), AfterValidator(frozen)]


_LIMITS = Limits()
_FILESYSTEM = Filesystem()
_ENVIRONMENT = Environment()
_SECURITY = Security()
_COMMANDS = Commands()
_LANGUAGES = Languages()
_NOTHING: FrozenDict[Any, Any] = FrozenDict()


class Policy(Part):
    """What a run may use and touch. Immutable; every mistake in it is reported at once, as ``PolicyError``.

    Nested parts may be given as mappings: ``Policy(limits={"memory": "64MiB", "wall_time": 2})``.
    An unset field has the default profile's figure; an empty list means nothing, never everything.
    """

    limits: Limits = Field(default=_LIMITS, description="resources and how much of each")
    filesystem: Filesystem = Field(default=_FILESYSTEM, description="files of the host")
    network: Literal["none", "host"] = Field(
        default="none",
        description="'none': a network of its own with nothing but its own loopback; 'host': the host's, "
        "which reaches services on its loopback and cloud metadata addresses",
    )
    environment: Environment = Field(default=_ENVIRONMENT, description="environment variables")
    security: Security = Field(default=_SECURITY, description="identity and privileges")
    commands: Commands = Field(default=_COMMANDS, description="commands that may be passed on")
    languages: Languages = Field(default=_LANGUAGES, description="what interpreters bound by themselves")
    isolation: Literal["process", "namespaces", "wasm", "own_kernel"] | None = Field(
        default=None,
        description="the least that may stand between guest and host; unset: a process, or what the trust asks for",
    )
    on_output: Literal["truncate", "kill"] = Field(
        default="truncate",
        description="past the output limit: keep head and tail and discard the rest, or end the run",
    )
    accept: _Accept = Field(
        default_factory=FrozenDict,
        description="guarantee to the weakest strength that is enough, where the usual floor is too high",
    )

    def __init__(
        self,
        *,
        limits: Limits | Mapping[str, Any] = _LIMITS,
        filesystem: Filesystem | Mapping[str, Any] = _FILESYSTEM,
        network: str = "none",
        environment: Environment | Mapping[str, Any] = _ENVIRONMENT,
        security: Security | Mapping[str, Any] = _SECURITY,
        commands: Commands | Mapping[str, Any] = _COMMANDS,
        languages: Languages | Mapping[str, Any] = _LANGUAGES,
        isolation: str | None = None,
        on_output: str = "truncate",
        accept: Mapping[Any, Any] = _NOTHING,
        **unknown: Any,
    ) -> None:
        fields = {
            "limits": _plain(limits),
            "filesystem": _plain(filesystem),
            "network": network,
            "environment": _plain(environment),
            "security": _plain(security),
            "commands": _plain(commands),
            "languages": _plain(languages),
            "isolation": isolation,
            "on_output": on_output,
            "accept": accept,
        }
        try:
            super().__init__(**fields, **unknown)
        except ValidationError as error:
            raise PolicyError([_problem(item) for item in error.errors()]) from None

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Policy:
        """Return the policy that ``data`` (as read from TOML or JSON) describes."""
        if not isinstance(data, Mapping):
            raise PolicyError([FieldProblem("policy", repr(data)[:80], "expected a table of fields")])
        odd = [key for key in data if not isinstance(key, str)]
        if odd:
            raise PolicyError([FieldProblem(repr(odd[0]), "", "a field's name is text")])
        return cls(**data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Return the policy in the file ``path``: TOML, or JSON when the name ends in ``.json``."""
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
            data = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
        except (OSError, ValueError) as error:
            raise PolicyError([FieldProblem("policy", str(path), f"cannot be read: {error}")]) from None
        return cls.parse(data)

    def floor(self, guarantee: Guarantee) -> Strength:
        """Return the weakest strength that satisfies this policy for ``guarantee``."""
        if guarantee in self.accept:
            return self.accept[guarantee]
        accepted = DEFAULT_ACCEPT.get(guarantee.value)
        return Strength(accepted) if accepted else FLOORS[guarantee]

    def asks(self, guarantee: Guarantee) -> bool:
        """Return whether this policy asks for ``guarantee``: a lifted limit and ``network="host"`` do not."""
        if guarantee in LIMITS:
            return self.limits.figure(guarantee) is not None
        return not (guarantee is Guarantee.NETWORK and self.network == "host")


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _problem(item: Any) -> FieldProblem:
    field = ".".join(str(part) for part in item["loc"] if part not in ("int", "float", "literal['unlimited']"))
    reason = item["msg"].removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        reason = "there is no such field"
    value = repr(item["input"])
    return FieldProblem(field, value if len(value) <= 80 else value[:77] + "...", reason)
