"""Files that come out of a run: how much of them, and what did not come and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stockade.core import patterns as _patterns
from stockade.core.errors import JobError
from stockade.core.units import parse_count, parse_size

MIB = 1 << 20


@dataclass(frozen=True)
class ArtifactLimits:
    """Bounds on what comes out of one run, since all of it comes into the caller's memory. Counts and bytes."""

    files: int = 1000
    file_bytes: int = 16 * MIB
    total_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        """Take sizes as text as well; refuse what is no bound. Raises ``JobError``."""
        for name, parse in (("files", parse_count), ("file_bytes", parse_size), ("total_bytes", parse_size)):
            given = getattr(self, name)
            try:
                value: Any = parse(given)
            except ValueError as error:
                raise JobError(f"caps: {name} = {given!r}: {error}") from None
            if not isinstance(value, int) or value < 0:
                raise JobError(f"caps: {name} = {given!r}: what comes out lies in memory, so it needs a bound")
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Refused:
    """Something the run has left that was not brought out. ``path`` shows bytes that are no UTF-8 as escapes."""

    path: str
    reason: str

    def __str__(self) -> str:
        """Return it as a sentence."""
        return f"{self.path!r} {self.reason}"


def checked(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns; raise ``JobError`` naming the first that is none."""
    if patterns == ():
        return ()  # most jobs want none
    if isinstance(patterns, str | bytes) or not isinstance(patterns, Sequence):
        raise JobError(f"artifacts: a list of patterns is expected, such as ['*.png'], not {patterns!r:.80}")
    for pattern in patterns:
        wrong = _patterns.problem(pattern) if isinstance(pattern, str) else "a pattern is text"
        if wrong:
            raise JobError(f"artifacts: {pattern!r:.80}: {wrong}")
    return tuple(patterns)


def shown(path: bytes) -> str:
    """Return a path that may hold any bytes as text that can be printed as UTF-8."""
    return path.decode("utf-8", "backslashreplace")
