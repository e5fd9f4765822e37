"""Wait for killed processes to die before their uids and control groups go to others, without blocking the loop."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MOMENT_SECONDS = 0.02
"""Blocking wait in ``add``. Most processes die within it, and another turn of the loop would cost more."""
_STEP_SECONDS = 0.0005
_AGAIN_SECONDS = 0.02
_LAST_SECONDS = 5.0


class Disposal:
    """Tracks dying processes and releases what they held once the kernel says that they are dead."""

    def __init__(self) -> None:
        self._dying: list[tuple[float, Callable[[], bool], Callable[[bool], None]]] = []

    def add(self, gone: Callable[[], bool], then: Callable[[bool], None]) -> None:
        """Call ``then(True)`` once ``gone`` returns true, or ``then(False)`` if that takes too long.

        After ``then(False)`` the uid and the groups of the processes must never be given to others.
        """
        until = time.monotonic() + _MOMENT_SECONDS
        while not gone():
            if time.monotonic() >= until:
                self._dying.append((until + _LAST_SECONDS, gone, then))
                return
            time.sleep(_STEP_SECONDS)
        then(True)

    def tick(self, now: float) -> float:
        """Check each dying process; return when to check again."""
        waiting, self._dying = self._dying, []
        for due, gone, then in waiting:
            dead = gone()
            if dead or now >= due:
                then(dead)
            else:
                self._dying.append((due, gone, then))
        return now + _AGAIN_SECONDS if self._dying else float("inf")

    def close(self) -> None:
        """Wait until every tracked process is dead or given up."""
        while self._dying:
            self.tick(time.monotonic())
            time.sleep(_STEP_SECONDS)
