"""Processes that were killed and must be gone before what they had is given to others. Nobody waits for one of them."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MOMENT_SECONDS = 0.02
"""Most are gone so soon that to look again later would cost more."""
_STEP_SECONDS = 0.0005
_AGAIN_SECONDS = 0.02
_LAST_SECONDS = 5.0


class Disposal:
    """Looks after dying processes, and hands on what they had when the kernel says that they are dead."""

    def __init__(self) -> None:
        self._dying: list[tuple[float, Callable[[], bool], Callable[[bool], None]]] = []

    def add(self, gone: Callable[[], bool], then: Callable[[bool], None]) -> None:
        """Call ``then`` once: with ``True`` when ``gone`` says so, or with ``False`` when that takes too long. What the
        processes had may then never be given to others."""
        until = time.monotonic() + _MOMENT_SECONDS
        while not gone():
            if time.monotonic() >= until:
                self._dying.append((until + _LAST_SECONDS, gone, then))
                return
            time.sleep(_STEP_SECONDS)
        then(True)

    def tick(self, now: float) -> float:
        """Look at each; return when to look again."""
        waiting, self._dying = self._dying, []
        for due, gone, then in waiting:
            dead = gone()
            if dead or now >= due:
                then(dead)
            else:
                self._dying.append((due, gone, then))
        return now + _AGAIN_SECONDS if self._dying else float("inf")

    def close(self) -> None:
        """Wait for all that are left."""
        while self._dying:
            self.tick(time.monotonic())
            time.sleep(_STEP_SECONDS)
