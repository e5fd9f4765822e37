"""Show progress while the contest runs, and print its results at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from examples.humaneval.contest import Judged, Round

_WIDTH = 32
_LONGEST_REASON = 160


@dataclass
class Progress:
    """A bar on a terminal; elsewhere a line for every tenth of the way."""

    title: str
    total: int
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    done: int = 0
    started: float = field(default_factory=time.monotonic)

    def step(self, judged: Judged) -> None:
        """Count one more judgement; print at once a verdict that is not as expected."""
        self.done += 1
        bar = self.stream.isatty()
        if not judged.as_expected:
            self.stream.write(("\r\x1b[K" if bar else "") + surprise(judged) + "\n")
        if bar:
            filled = _WIDTH * self.done // self.total
            self.stream.write(f"\r\x1b[K{self.title} [{'#' * filled}{'.' * (_WIDTH - filled)}] {self._count()}")
            self.stream.write("\r\x1b[K" if self.done == self.total else "")
        elif self.done * 10 // self.total > (self.done - 1) * 10 // self.total:
            self.stream.write(f"{self.title} {self._count()}\n")
        self.stream.flush()

    def _count(self) -> str:
        seconds = time.monotonic() - self.started
        return f"{self.done}/{self.total} {self.done / seconds:.1f}/s"


def surprise(judged: Judged) -> str:
    """Return a line on a verdict that is not as expected."""
    case, verdict = judged.case, judged.verdict
    wanted = " or ".join(case.expected)
    return f"UNEXPECTED {case.mode} {case.name}: {verdict.word}, expected {wanted} ({plain(verdict.reason)})"


def references_line(mode: str, held: Round) -> str:
    """Return the sentence on the reference solutions."""
    count = len(held.judged)
    rate = count / held.seconds
    return f"{mode:>6}: {held.passed} of {count} reference solutions pass, {held.seconds:.1f} s, {rate:.1f} a second"


def hostile_table(rounds: Mapping[str, Round]) -> str:
    """Return a table of what became of each answer, a column for each mode."""
    rows = zip(*(held.judged for held in rounds.values()), strict=True)
    lines = [f"{'answer':<24}" + "".join(f"{mode:<26}" for mode in rounds)]
    lines += [f"{row[0].case.name:<24}" + "".join(f"{_entry(item):<26}" for item in row) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def hostile_line(mode: str, held: Round) -> str:
    """Return the sentence on the hostile answers."""
    count = len(held.judged)
    right = count - len(held.surprises)
    fooled = sum(_fooled(item) for item in held.judged)
    return f"{mode:>6}: {right} of {count} verdicts as expected, {held.seconds:.1f} s, {fooled} tests fooled"


def as_json(held: Round) -> dict[str, Any]:
    """Return a round as JSON-compatible data."""
    return {
        "count": len(held.judged),
        "passed": held.passed,
        "as_expected": len(held.judged) - len(held.surprises),
        "fooled": sum(map(_fooled, held.judged)),
        "seconds": round(held.seconds, 3),
        "per_second": round(len(held.judged) / held.seconds, 2),
        "answers": [_judged_json(item) for item in held.judged],
    }


def plain(text: str) -> str:
    """Return text that an answer may have had a hand in, safe to show: one line, short, nothing but characters."""
    line = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "?" for letter in line)[:_LONGEST_REASON]


def _entry(judged: Judged) -> str:
    if not judged.as_expected:
        return f"{judged.verdict.word} (!)"
    return f"{judged.verdict.word} (fooled)" if _fooled(judged) else judged.verdict.word


def _fooled(judged: Judged) -> bool:
    return judged.verdict.word == "passed" and not judged.case.right


def _judged_json(judged: Judged) -> dict[str, Any]:
    return {
        "name": judged.case.name,
        "mode": judged.case.mode,
        "verdict": judged.verdict.word,
        "expected": list(judged.case.expected),
        "as_expected": judged.as_expected,
        "fooled": _fooled(judged),
        "reason": plain(judged.verdict.reason),
        "why": judged.case.why,
    }
