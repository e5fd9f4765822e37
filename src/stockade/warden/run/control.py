"""What a caller may do to a running guest: signal it, and have it stand still.

The warden does both itself, from outside: as root it may signal anybody, and for an ordinary user the guest has his own
uid, in whatever user namespace (kill(2)). Nothing inside listens for it, so there is nothing there to talk to.
"""

from __future__ import annotations

import os

from stockade.linux import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from functools import partial

    from stockade.linux.cgroups import Freezer
    from stockade.warden.run.meter import Meter
else:
    import _signal as signal  # the ``signal`` module imports ``enum``
    from _functools import partial

ASKS = ("signal", "pause", "resume")
_AGAIN_SECONDS = 0.005
_WATCH_SECONDS = 0.05
_ROUNDS = 10


class RunControl:
    """One run's. What is asked for before the program runs waits for it, in order."""

    def __init__(
        self, init: int, engines: int, meter: Meter, freezer: Callable[[], Freezer | None], asked: list[tuple[str, int]]
    ) -> None:
        """``engines`` processes stand between the cell's ``init`` and the guest's own first one. ``freezer`` gives a
        group to freeze them in, if there is any."""
        self._init = init
        self._engines = engines
        self._meter = meter
        self._find_freezer = freezer
        self._asked = asked
        self._held: list[int] = []
        self._freezer: Freezer | None = None
        self._stopped: set[int] = set()
        self._paused = False

    def pull(self, now: float) -> float:
        """Do what is asked for, and keep still what is to stand still; return when to look again."""
        while self._asked:
            if not self._do(*self._asked[0], now):
                return now + _AGAIN_SECONDS
            self._asked.pop(0)
        if self._paused and self._freezer is None:
            self._stop()
            return now + _WATCH_SECONDS
        return float("inf")

    def release(self) -> None:
        """The run is being ended: what must die may have to wake up for it."""
        self._asked.clear()
        if self._paused and self._freezer is not None:
            self._freezer.thaw()

    def _do(self, what: str, number: int, now: float) -> bool:
        """Return whether it is done; ``False`` is for a guest that is not there yet."""
        if what == "pause":
            self._pause(now)
        elif what == "resume":
            self._resume(now)
        elif not self._paused:
            return self._signal(number)
        elif number == signal.SIGKILL:
            self._signal(number)
            self._resume(now)
        else:
            self._held.append(number)
        return True

    def _signal(self, number: int) -> bool:
        found = descendants.eldest(self._init, self._engines + 1)
        if found is None:
            return False
        pid, pidfd = found
        try:
            if number == signal.SIGINT and os.getpgid(pid) not in (os.getpgrp(), os.getpgid(self._init)):
                os.killpg(os.getpgid(pid), number)  # as a terminal does; the number is taken while its leader lives
            else:
                signal.pidfd_send_signal(pidfd, number)
        except ProcessLookupError:
            pass  # it has just ended
        finally:
            os.close(pidfd)
        return True

    def _pause(self, now: float) -> None:
        if self._paused:
            return
        self._paused = True
        self._meter.pause(now)
        self._freezer = self._freezer or self._find_freezer()
        if self._freezer is None or not self._froze(self._freezer):
            self._stop()

    def _froze(self, freezer: Freezer) -> bool:
        try:
            freezer.freeze(partial(descendants.below, self._init))
        except OSError:  # signals need no group, and are better than nothing
            freezer.thaw()
            self._freezer, self._find_freezer = None, lambda: None
            return False
        return True

    def _stop(self) -> None:
        self._stopped |= descendants.stop_all(self._init, _ROUNDS)

    def _resume(self, now: float) -> None:
        if not self._paused:
            return
        self._paused = False
        self._meter.resume(now)
        if self._freezer is not None:
            self._freezer.thaw()
        else:
            descendants.continue_all(self._init, self._stopped)
            self._stopped.clear()
        self._asked[1:1] = [("signal", number) for number in self._held]  # behind this one, which is being done
        self._held.clear()
