"""The policy: what a run may use and touch. The data validates itself when it is built."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
)

from stockade.core.errors import FieldProblem, PolicyError, nearest
from stockade.core.frozen import FrozenDict
from stockade.core.loading import loading
from stockade.policy.guarantees import FLOORS, LIMITS, Guarantee, Strength
from stockade.policy.parts import Commands, Environment, Filesystem, Languages, Limits, Network, Part, Security, frozen
from stockade.policy.profiles import DEFAULT_ACCEPT, unreadable


def _table(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError("expected a table that maps each guarantee to the weakest strength that is enough")
    return dict(value)


def _member(kind: Any, word: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            near = nearest(str(value), kind)
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(kind)}"
            raise ValueError(f"{value!r} is not a {word}; {hint}") from None

    return BeforeValidator(check)


_Accept = Annotated[
    dict[Annotated[Guarantee, _member(Guarantee, "guarantee")], Annotated[Strength, _member(Strength, "strength")]],
    BeforeValidator(_table),
    AfterValidator(frozen),
]


def _kind_of_network(value: Any) -> str:
    return "[table]" if isinstance(value, Mapping | Network) else "[word]"


_Network = Annotated[
    Annotated[Literal["none", "host"], Tag("[word]")] | Annotated[Network, Tag("[table]")],
    Discriminator(_kind_of_network),
]
_UNSET: Any = object()
"""Marks an argument that was not given, so that ``model_fields_set`` holds only the others."""


class Policy(Part):
    """Limits and permissions of a run. Immutable; ``PolicyError`` reports every mistake at once.

    Nested parts may be given as mappings: ``Policy(limits={"memory": "64MiB", "wall_time": 2})``. An unset field has
    the default profile's figure. An empty list means nothing, never everything.
    """

    example = "; a profile is Policy.profile('strict'), and a file is Policy.load('policy.toml')"

    limits: Limits = Field(default=Limits(), description="resources, and the most of each")
    filesystem: Filesystem = Field(default=Filesystem(), description="files of the host")
    network: _Network = Field(
        default="none",
        description="'none': a separate network with only a loopback interface; a table with 'allow': the same, and "
        "a proxy to the targets that it lists; 'host': the host's network, which includes services on its loopback "
        "and cloud metadata addresses",
    )
    environment: Environment = Field(default=Environment(), description="environment variables")
    security: Security = Field(default=Security(), description="identity and privileges")
    commands: Commands = Field(default=Commands(), description="commands that callers may run")
    languages: Languages = Field(default=Languages(), description="bounds that interpreters apply to themselves")
    isolation: Literal["process", "namespaces", "user_kernel", "wasm", "own_kernel"] | None = Field(
        default=None,
        description="weakest allowed isolation between guest and host; unset: a process, or what the trust requires",
    )
    on_output: Literal["truncate", "kill"] = Field(
        default="truncate",
        description="past the output limit: 'truncate' keeps head and tail and discards the rest; 'kill' ends the run",
    )
    accept: _Accept = Field(
        default_factory=FrozenDict,
        description="weakest strength that is enough for a guarantee, if the usual floor is too high",
    )

    def __init__(
        self,
        *,
        limits: Limits | Mapping[str, Any] = _UNSET,
        filesystem: Filesystem | Mapping[str, Any] = _UNSET,
        network: str | Network | Mapping[str, Any] = _UNSET,
        environment: Environment | Mapping[str, Any] = _UNSET,
        security: Security | Mapping[str, Any] = _UNSET,
        commands: Commands | Mapping[str, Any] = _UNSET,
        languages: Languages | Mapping[str, Any] = _UNSET,
        isolation: str | None = _UNSET,
        on_output: str = _UNSET,
        accept: Mapping[Any, Any] = _UNSET,
        **unknown: Any,
    ) -> None:
        fields = {
            "limits": _plain(limits),
            "filesystem": _plain(filesystem),
            "network": _plain(network),
            "environment": _plain(environment),
            "security": _plain(security),
            "commands": _plain(commands),
            "languages": _plain(languages),
            "isolation": isolation,
            "on_output": on_output,
            "accept": accept,
        }
        given = {name: value for name, value in fields.items() if value is not _UNSET}
        super().__init__(**given, **unknown)

    @classmethod
    def profile(cls, name: str, **fields: Any) -> Policy:
        """Return the profile ``name`` with ``fields`` on top: ``Policy.profile("strict", limits={"memory": "1GiB"})``.

        A field that is not given, even a single limit, is the profile's. ``stockade.resolve`` merges more sources.
        Raises ``PolicyError`` for an unknown profile, and for invalid fields.
        """
        from stockade.policy import merge  # a plain policy does not need it

        return cls.parse(merge.merge([*merge.profile(name), merge.Layer("argument", fields)]).data())

    @classmethod
    def named(cls, policy: PolicyLike | None) -> Policy:
        """Return the policy of a ``Policy``, its fields as a mapping, a profile's name or ``None`` for the default."""
        if policy is None:
            return _default()
        if isinstance(policy, str):
            return cls.profile(policy)
        if isinstance(policy, Mapping):
            return cls.parse(policy)
        if not isinstance(policy, Policy):
            reason = "expected a Policy, its fields as a mapping, or a profile's name; Policy.load reads a file"
            raise PolicyError([FieldProblem("policy", repr(policy)[:80], reason)])
        return policy

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Policy:
        """Return the policy that ``data``, as read from TOML or JSON, describes."""
        if not isinstance(data, Mapping):
            raise PolicyError([FieldProblem("policy", repr(data)[:80], "expected a table of fields")])
        odd = [key for key in data if not isinstance(key, str)]
        if odd:
            raise PolicyError([FieldProblem(repr(odd[0]), "", "a field's name must be text")])
        return cls(**data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Return the policy in the file ``path``: TOML, or JSON when the name ends in ``.json``."""
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
            data = read(text, as_json=file.suffix == ".json")
        except (OSError, ValueError, RecursionError) as error:
            raise unreadable(str(path), error) from None
        return cls.parse(data)

    def floor(self, guarantee: Guarantee) -> Strength:
        """Return the weakest strength that satisfies this policy for ``guarantee``."""
        if guarantee in self.accept:
            return self.accept[guarantee]
        if guarantee is Guarantee.NETWORK and self.way_out is not None:
            return Strength.SUPERVISOR  # no kernel decides by names
        accepted = DEFAULT_ACCEPT.get(guarantee.value)
        return Strength(accepted) if accepted else FLOORS[guarantee]

    @property
    def way_out(self) -> Network | None:
        """The bounded way out of the sandbox, if the policy gives one."""
        return self.network if isinstance(self.network, Network) else None

    def asks(self, guarantee: Guarantee) -> bool:
        """Return whether this policy asks for ``guarantee``. A lifted limit and ``network="host"`` ask for none."""
        if guarantee in LIMITS:
            return self.limits.figure(guarantee) is not None
        return not (guarantee is Guarantee.NETWORK and self.network == "host")


PolicyLike = Policy | Mapping[str, Any] | str
"""A policy, its fields as a mapping, or the name of a profile."""


@lru_cache(maxsize=1)
def _default() -> Policy:
    """Return the default policy. All users share one object, so anything computed from it is computed once."""
    return Policy()


def read(text: str, *, as_json: bool) -> Any:
    """Return the data of a file. Raise ``ValueError`` for invalid TOML or JSON, and for a duplicate key."""
    if as_json:
        return json.loads(text, object_pairs_hook=_once)
    with loading:
        import tomllib  # only a policy file needs it, and it takes a tenth of this module's import time
    return tomllib.loads(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} appears twice")
    return table


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
