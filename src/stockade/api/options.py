"""The options of a run, typed once for every public function that takes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import BinaryIO, TypedDict

from stockade.core.errors import nearest
from stockade.workspace.artifacts import ArtifactLimits

Archive = bytes | os.PathLike[str] | str


class CommandOptions(TypedDict, total=False):
    """Options of a run of a command. ``stockade.run`` describes each."""

    stdin: str | bytes | BinaryIO | None
    files: Mapping[str, str | bytes] | None
    archive: Archive | None
    artifacts: Sequence[str]
    caps: ArtifactLimits | None
    environment: Mapping[str, str] | None


class RunOptions(CommandOptions, total=False):
    """Options of a run of source text: those of a command, and how to run the source."""

    language: str | None
    arguments: Sequence[str]
    interpreter: str | os.PathLike[str] | None
    packages: str | os.PathLike[str] | None


COMMAND_OPTIONS = (*CommandOptions.__annotations__,)
RUN_OPTIONS = (*RunOptions.__annotations__,)
_OF_A_RUNNER = ("policy", "backend", "trust", "ceiling", "preload", "warm")


def check_names(options: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise ``TypeError`` if a name in ``options`` is not in ``known``. The error suggests the nearest known name."""
    for name in options:
        if name not in known:
            raise TypeError(f"no option {name!r}: {_advice(name, known)}")


def _advice(name: str, known: Sequence[str]) -> str:
    if name in _OF_A_RUNNER:
        return f"{name} is set for all runs of a Runner, as Runner({name}=...), or for one by stockade.run"
    if name in RUN_OPTIONS:
        return f"a command does not take {name}; its options are {', '.join(known)}"
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else f"the options are {', '.join(known)}"
