"""Time stamps of one traced run: caller, warden, guest and worker note each step that they reach.

A process notes a step before it sends the message that causes the next one, so no step seems to precede its cause. All
processes share one clock: CLOCK_MONOTONIC is the same everywhere on a machine.
"""

from __future__ import annotations

from time import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Note = tuple[int, str, int]
    """The number of the run, the step, and the time in nanoseconds."""

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
    SENT: ("caller", "the launch is encoded and sent to the warden"),
    READ: ("warden", "the launch is read"),
    TAKEN: ("warden", "a worker or an instance is assigned"),
    HANDED_OVER: ("warden", "counters run, limits are set; the launch is sent to the guest"),
    WOKEN: ("guest", "the launch is read"),
    APPLIED: ("guest", "its files are written, its limits hold"),
    SEALED: ("guest", "other descriptors are closed, the filter holds"),
    BEGUN: ("guest", "arguments, environment and modules are those of a fresh interpreter"),
    ENDED: ("guest", "the source was read, compiled and run"),
    COMPLETED: ("guest", "exit handlers have run, streams are flushed; the completion marker is written"),
    STARTED: ("warden", "the warden knows that the code runs; this overlaps with the guest"),
    COMPLETION_SEEN: ("warden", "the completion marker is read; the guest is killed"),
    ALONE: ("warden", "the control group was read: no other process is left to wait for"),
    ANSWERED: ("warden", "pipes, counters and limits are read; the answer is sent"),
    RECEIVED: ("caller", "the answer is read"),
    RETURNED: ("caller", "the result is made and returned"),
    RELEASED: ("warden", "the worker is released and asked for the next guest"),
    REAPED: ("worker", "nothing of the guest is left"),
    EMPTY: ("warden", "the warden knows that nothing of the guest is left"),
    SET_UP: ("warden", "the next guest exists and is set up"),
}
"""For each step: the process that notes it, and what was done since the step before. In the order of a warm run."""
_GUESTS = frozenset(step for step, (process, _) in STEPS.items() if process == "guest")

notes: list[Note] = []
"""The steps that this process noted or received and has not passed on yet."""


def note(number: int, step: str, at: int | None = None) -> None:
    """Note that run ``number`` reached ``step``, now or at the time ``at``. Number 0 is a run without a trace."""
    if number:
        notes.append((number, step, monotonic_ns() if at is None else at))


def take() -> list[Note]:
    """Return the noted steps, and forget them."""
    taken = notes[:]
    notes.clear()
    return taken


def encode_notes(taken: Iterable[Note]) -> str:
    """Return notes as a line of a guest's report."""
    return '{"trace": [' + ", ".join(f'["{step}", {at}]' for _, step, at in taken) + "]}"


def reported_notes(number: int, reported: Any) -> list[Note]:
    """Return the steps that the guest of run ``number`` claims to have noted: untrusted, as all its reports."""
    if not isinstance(reported, list):
        return []
    pairs = (each for each in reported if isinstance(each, list) and len(each) == 2)
    return [(number, step, at) for step, at in pairs if isinstance(step, str) and step in _GUESTS and type(at) is int]
