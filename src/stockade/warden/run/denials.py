"""Denials: answers and counts the system calls that one run's filter refuses, up to a budget."""

from __future__ import annotations

import errno
import os

from stockade.linux.seccomp import notify
from stockade.warden import loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

BUDGET = 2000
"""Answers for one run. Each takes some 30 microseconds of the warden, which serves other runs as well."""


class Denials:
    """Answers one call in each turn of the loop, so that a flood of calls never holds up another run.

    When the budget is spent, the listener is closed. The kernel then answers ENOSYS by itself, which refuses the call
    as well. The number of counts is small: a filter asks only about call numbers that it knows.
    """

    def __init__(self, events: loop.Guarded, errnos: Mapping[int, int]) -> None:
        """``errnos`` maps call numbers to their errno, if that is not EPERM."""
        self._loop = events
        self._errnos = errnos
        self._listener = -1
        self._left = BUDGET
        self._counts: dict[int, int] = {}
        self._first: dict[int, tuple[int, ...]] = {}

    def open(self, listener: int) -> None:
        """Answer at ``listener``, and own the descriptor from now on; -1 stands for no listener."""
        if listener >= 0:
            self._listener = listener
            self._loop.watch(listener, loop.READ, self._on_event)

    def close(self) -> None:
        """Stop answering, and close the listener."""
        if self._listener >= 0:
            self._loop.forget(self._listener)
            os.close(self._listener)
            self._listener = -1

    def report(self) -> dict[str, Any]:
        """Return number, count and first arguments of each refused call, and whether the budget was spent."""
        refused = [(number, count, self._first[number]) for number, count in self._counts.items() if count]
        return {"denials": refused, "denials_truncated": self._left <= 0}

    def _on_event(self, events: int) -> None:
        if not events & loop.READ:
            self.close()  # no process is left under the filter
            return
        # An interrupted call costs as much as an answered one, and a guest can interrupt its own calls without end.
        self._left -= 1
        self._answer()
        if self._left <= 0:
            self.close()

    def _answer(self) -> None:
        """Answer one call. This never blocks: the loop has just seen a call, and nobody else receives any."""
        call = notify.receive(self._listener)
        if call is None:
            return
        # Count before the answer: right after it, the guest may end and the report may be made.
        number = call.nr
        self._first.setdefault(number, call.args)
        self._counts[number] = self._counts.get(number, 0) + 1
        if not notify.refuse(self._listener, call, self._errnos.get(number, errno.EPERM)):
            self._counts[number] -= 1  # the call was interrupted: it comes again, or its caller is dead
