"""Run control: a caller may signal, pause and resume a running guest.

The warden does all of it from outside. As root it may signal any process; for an ordinary user the guest has the user's
own uid, in whatever user namespace (kill(2)). No process inside listens for requests, so a guest has nothing to attack.
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
    """Carries out the requests for one run. Requests that come before the program runs wait for it, in order."""

    def __init__(
        self, init: int, engines: int, meter: Meter, freezer: Callable[[], Freezer | None], asked: list[tuple[str, int]]
    ) -> None:
        """``engines`` is the number of processes between the instance's ``init`` and the guest's first process.
        ``freezer`` returns a control group for freezing them, or ``None``."""
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
        """Carry out requests, and stop new processes of a paused guest. Return when to call again."""
        while self._asked:
            if not self._do(*self._asked[0], now):
                return now + _AGAIN_SECONDS
            self._asked.pop(0)
        if self._paused and self._freezer is None:
            self._stop()
            return now + _WATCH_SECONDS
        return float("inf")

    def release(self) -> None:
        """Thaw the guest and drop all requests: the run is being ended, and a process may have to wake up to die."""
        self._asked.clear()
        if self._paused and self._freezer is not None:
            self._freezer.thaw()

    def _do(self, what: str, number: int, now: float) -> bool:
        """Carry out one request. Return ``False`` if the guest does not exist yet."""
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
                os.killpg(os.getpgid(pid), number)  # as a terminal does; a live leader keeps the number from reuse
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
        except OSError:  # stop signals need no control group, and are better than nothing
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
        self._asked[1:1] = [("signal", number) for number in self._held]  # behind the current request
        self._held.clear()
