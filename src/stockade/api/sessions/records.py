"""Results of cells and of shell commands. The guest chooses most of the fields; each exception says so."""

from __future__ import annotations

import base64
import binascii
import json
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stockade.core.frozen import FrozenDict
from stockade.core.hints import known_fields
from stockade.runs.result import GuestError

_BINARY = ("image/png", "image/jpeg", "application/pdf")
_LONGEST_KIND = 200


class CellOutcome(StrEnum):
    """How a cell or command ended, in one word."""

    COMPLETED = "completed"
    FAILED = "failed"
    """It raised an error, or its exit status is not 0."""
    INTERRUPTED = "interrupted"
    """The caller interrupted it."""
    TIMED_OUT = "timed_out"
    DIED = "died"
    """It ended its interpreter."""


@known_fields
@dataclass(frozen=True)
class CellLimits:
    """The most that one cell gives back. What is over a limit is left out and counted in ``omitted``."""

    output: int = 1 << 20
    """Bytes of standard output, and of standard error."""
    displays: int = 100
    display_bytes: int = 8 << 20
    """Bytes of all displays of a cell, as text (a picture takes four thirds of its size)."""


@dataclass(frozen=True)
class CellUsage:
    """Resources that a cell used. The caller's clock takes the wall time; the other figures come out of the sandbox."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    """CPU time of the interpreter, and of its children that it waited for."""
    memory: int | None = None
    """Resident memory of the interpreter after the cell, in bytes."""


@dataclass(frozen=True)
class Display:
    """A value in several forms: MIME type to text, bytes (pictures, PDF) or plain data (JSON)."""

    data: Mapping[str, Any] = field(default_factory=FrozenDict)

    def __repr__(self) -> str:
        """Return one line with the beginning of each form: a picture's bytes would fill a terminal."""
        return f"Display(data={reprlib.repr(dict(self.data))})"

    @property
    def unsafe_types(self) -> tuple[str, ...]:
        """The forms that can attack a program that shows them: all but plain text. The guest wrote every byte."""
        return tuple(kind for kind in self.data if kind != "text/plain")


@dataclass(frozen=True)
class CellResult:
    """The result of a cell. Only ``outcome`` (unless ``failed``) and ``usage.wall_seconds`` are the caller's own."""

    outcome: CellOutcome
    execution_count: int
    stdout: str = ""
    stderr: str = ""
    value_repr: str | None = None
    """The ``repr`` of the last expression, if it has a value."""
    value: Display | None = None
    """The same value in all its forms."""
    displays: tuple[Display, ...] = ()
    """What the cell displayed, and the figures that it left open."""
    error: GuestError | None = None
    usage: CellUsage = CellUsage()
    omitted: Mapping[str, int] = field(default_factory=FrozenDict)
    """What limits left out: bytes of ``stdout`` and ``stderr``, number of ``displays``."""
    ended: str = ""
    """Why the interpreter is gone; empty if it lives."""

    @property
    def ok(self) -> bool:
        """Whether the cell completed without an error."""
        return self.outcome is CellOutcome.COMPLETED


@dataclass(frozen=True)
class ShellResult:
    """The result of a shell command."""

    outcome: CellOutcome
    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    folder: str = ""
    """The shell's folder after the command."""
    usage: CellUsage = CellUsage()
    omitted: Mapping[str, int] = field(default_factory=FrozenDict)
    ended: str = ""
    """Why the shell is gone; empty if it lives."""

    @property
    def ok(self) -> bool:
        """Whether the command completed with status 0."""
        return self.outcome is CellOutcome.COMPLETED


@dataclass(frozen=True)
class CellOutput:
    """A piece of output, for a caller that follows a cell."""

    stream: str
    """``"stdout"`` or ``"stderr"``."""
    data: bytes


OnEvent = Callable[[CellOutput | Display], None]
"""Called in the caller's thread for each piece of output and each display."""


def error_text(error: GuestError | None) -> str:
    """Return what a reader needs of a cell's error: its traceback, or else its type and message."""
    return "" if error is None else error.traceback or f"{error.type}: {error.message}"


def decoded(payload: bytes) -> dict[str, Any]:
    """Return a guest's JSON object. Raises ``ValueError`` for anything else."""
    try:
        found = json.loads(payload)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def text_of(data: Mapping[str, Any], name: str) -> str:
    """Return a text of a guest's object. Raises ``ValueError`` if it is not there."""
    value = data.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a text")
    return value.encode("utf-8", "replace").decode()


def number_of(data: Mapping[str, Any], name: str) -> float:
    """Return a number of a guest's object that is not negative. Raises ``ValueError`` if it is not there."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 63:
        raise ValueError(f"{name} is not a number in range")
    return value


def display_of(forms: Any) -> Display:
    """Return a display from a guest's object. Raises ``ValueError`` if it is not one."""
    if not isinstance(forms, dict) or any(len(kind) > _LONGEST_KIND for kind in forms):
        raise ValueError("a display is not an object of MIME types")
    data: dict[str, Any] = {}
    for kind, content in forms.items():
        if kind not in _BINARY:
            data[kind] = content
            continue
        try:
            data[kind] = base64.b64decode(content, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ValueError(f"{kind} is not base64") from None
    return Display(FrozenDict(data))


def error_of(data: Mapping[str, Any]) -> GuestError:
    """Return a guest's error."""
    return GuestError(*(text_of(data, name) for name in ("type", "message", "traceback")))


def omitted_of(data: Mapping[str, Any]) -> dict[str, int]:
    """Return what a guest's agent says that it left out."""
    found = data.get("omitted")
    if not isinstance(found, dict):
        raise ValueError("omitted is not an object")
    return {name: int(number_of(found, name)) for name in ("stdout", "stderr", "displays") if name in found}
