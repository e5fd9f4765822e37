"""The messages of an agent while a cell runs, and what they mean."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Any

from stockade.api.sessions.records import CellLimits, CellOutcome, CellUsage, Display, number_of


@dataclass
class Gathered:
    """The messages that arrived while a cell ran."""

    token: str
    limits: CellLimits
    count: int
    """Which cell of its session it is, from 1."""
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    displays: list[Display] = field(default_factory=list)
    calls: int = 0
    display_bytes: int = 0
    value: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    omitted: dict[str, int] = field(default_factory=dict)
    outcome: CellOutcome = CellOutcome.COMPLETED
    usage: CellUsage = field(default_factory=CellUsage)
    ended: str = ""


def was_interrupted(found: Gathered) -> bool:
    """Return whether the cell shows that the interrupt ended it: it may have come after the last line."""
    if found.error is not None:
        return found.error.get("type") in ("KeyboardInterrupt", "Interrupt")
    return found.value is not None and found.value.get("status") == 128 + signal.SIGINT


def reason(report: dict[str, Any]) -> str:
    """Return how an interpreter ended, in words."""
    stated, status = report.get("reason"), int(number_of(report, "status"))
    if isinstance(stated, str) and stated:
        return stated[:200]
    number = status & 0x7F
    if not number:
        return f"it exited with status {status >> 8 & 0xFF}"
    try:
        return f"{signal.Signals(number).name} ended it"
    except ValueError:
        return f"signal {number} ended it"
