"""Where one run's time goes: steps that caller, warden, guest and keeper note as they come to them, for runs that are
traced. What takes a word to another process is noted before that is sent, so a step never seems to come before its
cause. All clocks are one: CLOCK_MONOTONIC is the same for every process of a machine.
"""

from __future__ import annotations

from time import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Note = tuple[int, str, int]
    """Number of the run, step, nanoseconds."""

CALLED, PLANNED, SENT = "called", "planned", "sent"
READ, TAKEN, HANDED_OVER = "read", "taken", "handed over"
WOKEN, APPLIED, SEALED = "woken", "applied", "sealed"
BEGUN, ENDED, COMPLETED = "begun", "ended", "completed"
STARTED, COMPLETION_SEEN, ALONE, ANSWERED = "started", "completion seen", "alone", "answered"
RECEIVED, RETURNED = "received", "returned"
RELEASED, REAPED, EMPTY, SET_UP = "released", "reaped", "empty", "set up"
STEPS = {
    CALLED: ("caller", "the public function is called"),
    PLANNED: ("caller", "the job is a launch: plan, files, limits"),
    SENT: ("caller", "the launch is encoded, and sent to the warden"),
    READ: ("warden", "the launch is read"),
    TAKEN: ("warden", "a place for the guest is there"),
    HANDED_OVER: ("warden", "counters run, limits are set; the guest is sent its launch"),
    WOKEN: ("guest", "the launch is read"),
    APPLIED: ("guest", "its files lie there, its limits hold"),
    SEALED: ("guest", "other descriptors are closed, the filter holds"),
    BEGUN: ("guest", "arguments, environment and modules are those of a fresh interpreter"),
    ENDED: ("guest", "the source was read, compiled and run"),
    COMPLETED: ("guest", "exit handlers are through, streams flushed; the end is announced"),
    STARTED: ("warden", "it is known that the code runs; beside the guest, nobody waits for it"),
    COMPLETION_SEEN: ("warden", "the end is announced; the guest is killed"),
    ALONE: ("warden", "its group was asked: there is no other process to wait for"),
    ANSWERED: ("warden", "pipes, counters and limits are read; the answer is sent"),
    RECEIVED: ("caller", "the answer is read"),
    RETURNED: ("caller", "the result is made and returned"),
    RELEASED: ("warden", "the place is given back, and the next guest is asked for"),
    REAPED: ("worker", "nothing of the guest is left"),
    EMPTY: ("warden", "that is known"),
    SET_UP: ("warden", "the next guest is there, and furnished"),
}
"""Each step: whose it is, and what is done by then since the step before it. In the order of a warm run."""
_GUESTS = frozenset(step for step, (process, _) in STEPS.items() if process == "guest")

notes: list[Note] = []
"""What this process has noted, or was told by others, and not yet handed on."""


def note(number: int, step: str, at: int | None = None) -> None:
    """Note that run ``number`` has come to ``step``, now or ``at`` its time; 0 is a run that is not traced."""
    if number:
        notes.append((number, step, monotonic_ns() if at is None else at))


def take() -> list[Note]:
    """Return what was noted, and forget it."""
    taken = notes[:]
    notes.clear()
    return taken


def encode_notes(taken: Iterable[Note]) -> str:
    """Return notes as a line of a guest's report."""
    return '{"trace": [' + ", ".join(f'["{step}", {at}]' for _, step, at in taken) + "]}"


def reported_notes(number: int, reported: Any) -> list[Note]:
    """Return what the guest of run ``number`` claims to have noted: its own word, like all that it reports."""
    if not isinstance(reported, list):
        return []
    pairs = (each for each in reported if isinstance(each, list) and len(each) == 2)
    return [(number, step, at) for step, at in pairs if isinstance(step, str) and step in _GUESTS and type(at) is int]
