"""The calls that one run's filter refuses: answered, named by number, and counted, up to a budget."""

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
"""Calls that are answered in one run. Each takes some 30 microseconds of the warden's, which serves other runs too."""


class Denials:
    """Answers at a filter's listener, one call a turn of the loop, so that a flood never holds up another run.

    When the budget is spent the listener is closed: the kernel then answers ENOSYS by itself, which is as much of a
    refusal. The counts are few: a filter asks only about numbers that it knows.
    """

    def __init__(self, events: loop.Guarded, errnos: Mapping[int, int]) -> None:
        """``errnos`` has the errno of each call by number, where it is not EPERM."""
        self._loop = events
        self._errnos = errnos
        self._listener = -1
        self._left = BUDGET
        self._counts: dict[int, int] = {}
        self._first: dict[int, tuple[int, ...]] = {}

    def open(self, listener: int) -> None:
        """Answer at ``listener``, which is ours from now on; -1 is none."""
        if listener >= 0:
            self._listener = listener
            self._loop.watch(listener, loop.READ, self._on_event)

    def close(self) -> None:
        """Answer no more."""
        if self._listener >= 0:
            self._loop.forget(self._listener)
            os.close(self._listener)
            self._listener = -1

    def report(self) -> dict[str, Any]:
        """Return number, count and first arguments of each call, and whether more came than were counted."""
        refused = [(number, count, self._first[number]) for number, count in self._counts.items() if count]
        return {"denials": refused, "denials_truncated": self._left <= 0}

    def _on_event(self, events: int) -> None:
        if not events & loop.READ:
            self.close()  # no process is left under the filter
            return
        # What was interrupted costs as much as what is answered, and a guest can interrupt itself for ever.
        self._left -= 1
        self._answer()
        if self._left <= 0:
            self.close()

    def _answer(self) -> None:
        """Take a call that waits: the loop has just seen one, and nobody else takes any, so this does not block."""
        call = notify.receive(self._listener)
        if call is None:
            return
        # Counted before it is answered: the guest's end may be seen right after.
        number = call.nr
        self._first.setdefault(number, call.args)
        self._counts[number] = self._counts.get(number, 0) + 1
        if not notify.refuse(self._listener, call, self._errnos.get(number, errno.EPERM)):
            self._counts[number] -= 1  # interrupted: it comes again, or its caller is dead
