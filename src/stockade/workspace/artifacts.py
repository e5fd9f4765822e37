"""Files that a run leaves for its caller: limits, and the reasons for files that were left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stockade.core import patterns as _patterns
from stockade.core.dataclass import dataclass
from stockade.core.errors import JobError
from stockade.core.hints import known_fields
from stockade.core.units import parse_count, parse_size

MIB = 1 << 20


@known_fields
@dataclass(frozen=True)
class ArtifactLimits:
    """Limits on the files of one run, since all of them are loaded into the caller's memory. Counts and bytes."""

    files: int = 1000
    file_bytes: int = 16 * MIB
    total_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        """Accept sizes as text as well; raise ``JobError`` for an invalid limit."""
        for name, parse in (("files", parse_count), ("file_bytes", parse_size), ("total_bytes", parse_size)):
            given = getattr(self, name)
            try:
                value: Any = parse(given)
            except ValueError as error:
                raise JobError(f"caps: {name} = {given!r}: {error}") from None
            if not isinstance(value, int) or value < 0:
                raise JobError(f"caps: {name} = {given!r}: the files are kept in memory, so a limit is needed")
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Refused:
    """A file of the run that was left out, with the reason. ``path`` shows bytes that are not UTF-8 as escapes."""

    path: str
    reason: str

    def __str__(self) -> str:
        """Return path and reason as a sentence."""
        return f"{self.path!r} {self.reason}"


def checked(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns; raise ``JobError`` for the first invalid one."""
    if patterns == ():
        return ()  # most jobs have no patterns
    if isinstance(patterns, str | bytes) or not isinstance(patterns, Sequence):
        raise JobError(f"artifacts: expected a list of patterns, such as ['*.png'], not {patterns!r:.80}")
    for pattern in patterns:
        wrong = _patterns.problem(pattern) if isinstance(pattern, str) else "a pattern must be text"
        if wrong:
            raise JobError(f"artifacts: {pattern!r:.80}: {wrong}")
    return tuple(patterns)


def shown(path: bytes) -> str:
    """Return a path of any bytes as text that can be printed as UTF-8."""
    return path.decode("utf-8", "backslashreplace")
