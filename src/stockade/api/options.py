"""The options of a run, typed once for every public function that takes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, ParamSpec, TypedDict, TypeVar

from stockade.api import configured
from stockade.core import hints
from stockade.core.errors import nearest
from stockade.core.loading import loading
from stockade.workspace.artifacts import ArtifactLimits

if TYPE_CHECKING:
    from stockade.policy.model import Policy, PolicyLike
    from stockade.policy.parts.network import Network
    from stockade.runs.secret import Secret

Archive = bytes | os.PathLike[str] | str


class PolicyOptions(TypedDict, total=False):
    """The most used fields of a policy. Each replaces that field of ``policy``; a ceiling bounds it all the same.

    - ``timeout``: seconds on the clock, or a text such as ``"5min"``: the field ``limits.wall_time``.
    - ``cpu_time``: seconds of CPU time.
    - ``memory``: bytes, or a text such as ``"64MiB"``.
    - ``processes``: processes and threads at a time.
    - ``network``: ``"none"``, ``"host"``, or a ``stockade.Network`` that lists what the guest may reach.

    ``None`` leaves the policy's own value. ``"unlimited"`` lifts a limit.
    """

    timeout: float | str | None
    cpu_time: float | str | None
    memory: int | str | None
    processes: int | str | None
    network: Literal["none", "host"] | Network | Mapping[str, Any] | None


class CommandOptions(TypedDict, total=False):
    """Options of a run of a command. ``stockade.run`` describes each."""

    stdin: str | bytes | BinaryIO | os.PathLike[str] | None
    files: Mapping[str, str | bytes] | None
    archive: Archive | None
    artifacts: Sequence[str]
    caps: ArtifactLimits | None
    environment: Mapping[str, str] | None
    packages: str | os.PathLike[str] | None
    labels: Mapping[str, str] | None
    requirements: Sequence[str] | None
    secrets: Mapping[str, Secret] | None
    on_ask: Callable[[str], bool] | None


class RunOptions(CommandOptions, total=False):
    """Options of a run of source text: those of a command, and how to run the source."""

    language: str | None
    arguments: Sequence[str]
    interpreter: str | os.PathLike[str] | None


class SingleCommandOptions(CommandOptions, PolicyOptions, total=False):
    """Options of ``stockade.run_command``, which makes a policy for one run."""


class SingleRunOptions(RunOptions, PolicyOptions, total=False):
    """Options of ``stockade.run``, which makes a policy for one run."""


_FIELDS = {
    "timeout": "limits.wall_time",
    "cpu_time": "limits.cpu_time",
    "memory": "limits.memory",
    "processes": "limits.processes",
    "network": "network",
}
"""The field of a policy behind each of ``PolicyOptions``."""
POLICY_OPTIONS = (*_FIELDS,)
COMMAND_OPTIONS = (*CommandOptions.__annotations__,)
RUN_OPTIONS = (*RunOptions.__annotations__,)
OF_A_RUNNER = ("policy", "backend", "image", "trust", "ceiling", "preload", "warm", *POLICY_OPTIONS)


def split(options: Mapping[str, Any], known: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return those of ``options`` that change the policy, and the others, which must be ``known``."""
    own = {name: value for name, value in options.items() if name in _FIELDS}
    rest = {name: value for name, value in options.items() if name not in _FIELDS}
    check_names(rest, known, (*known, *OF_A_RUNNER))
    return own, rest


def overlaid(policy: PolicyLike | None, options: Mapping[str, Any]) -> Policy:
    """Return ``policy`` with the fields of ``PolicyOptions`` on top. Raises ``PolicyError`` for an invalid value."""
    with loading:
        from stockade.policy.merge import nested
        from stockade.policy.model import Policy
        from stockade.policy.resolve import with_layers

    check_names(options, POLICY_OPTIONS, OF_A_RUNNER)
    base = Policy.named(configured.policy() if policy is None else policy)
    layers = {f"argument {name}": nested(_FIELDS[name], value) for name, value in options.items() if value is not None}
    return with_layers(base, layers) if layers else base


_P = ParamSpec("_P")
_R = TypeVar("_R")


def known_options(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Do what ``core.hints.known_options`` does for a method of a sandbox, which has advice of its own."""
    return hints.known_options(function, _of_call)


def _of_call(name: str, known: Sequence[str]) -> str:
    if name in POLICY_OPTIONS and name not in known:
        return f"{name} holds for the whole sandbox, as Sandbox.create({name}=...)"
    return hints.meant_option(name, known)


def check_names(options: Mapping[str, object], known: Sequence[str], shown: Sequence[str] = ()) -> None:
    """Raise ``TypeError`` if a name in ``options`` is not in ``known``. The error suggests the nearest known name.

    ``shown`` are the names to suggest, if there are more than ``known``.
    """
    for name in options:
        if name not in known:
            raise TypeError(f"no option {name!r}: {_advice(name, shown or known)}")


def _advice(name: str, known: Sequence[str]) -> str:
    if name in ("profile", "policy_file"):
        return "a profile is policy='strict', and a file is policy=stockade.Policy.load('policy.toml')"
    if name == "hooks":
        return "hooks are set for all runs of a Runner, as Runner(hooks=...), or of the process, by stockade.configure"
    if name in OF_A_RUNNER:
        return _of_a_runner(name)
    if name in RUN_OPTIONS and "stdin" not in known:
        return f"{name} is set for each run, as Runner().run(source, {name}=...)"
    if name in RUN_OPTIONS:
        call = "a command" if "language" not in known else "this call"
        return f"{call} does not take {name}; its options are {', '.join(known)}"
    near = nearest(name, ("source", *known) if "language" in known else known)
    return f"did you mean {near!r}?" if near else _advice_elsewhere(name, known)


def _advice_elsewhere(name: str, known: Sequence[str]) -> str:
    """Return advice on a name that is like no option of the call: it is an option of a runner, or a field."""
    if "policy" not in known and (near := nearest(name, OF_A_RUNNER)):
        return f"did you mean {near!r}? {_of_a_runner(near)}"
    if field := _field(name):
        parts = field.split(".")
        written = "".join(f"{{'{part}': " for part in parts) + "..." + "}" * len(parts)
        return f"did you mean the field {field} of the policy? Write policy={written}"
    return f"the options are {', '.join(known)}"


def _of_a_runner(name: str) -> str:
    return f"{name} is set for all runs of a Runner, as Runner({name}=...), or for one by stockade.run"


def _field(name: str) -> str:
    """Return the field of a policy that ``name`` probably means."""
    from stockade.policy.rules import RULES

    fields = {path.rpartition(".")[2]: path for path in RULES}
    return fields.get(name) or fields.get(nearest(name, fields), "")
