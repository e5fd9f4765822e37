"""The processes of a guest that descend from an init of the warden's: signals, pause and resume.

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
else:
    import _signal as signal  # the ``signal`` module imports ``enum``
    from _functools import partial

_ROUNDS = 10


class GuestProcesses:
    """Signals and stops the processes of one guest."""

    def __init__(self, init: int, engines: int, freezer: Callable[[], Freezer | None]) -> None:
        """``engines`` is the number of processes between the instance's ``init`` and the guest's first process.
        ``freezer`` returns a control group for freezing them, or ``None``."""
        self._init = init
        self._engines = engines
        self._find_freezer = freezer
        self._freezer: Freezer | None = None
        self._stopped: set[int] = set()
        self._paused = False

    def signal(self, number: int) -> bool:
        """Signal the guest's first process. Return ``False`` if the guest does not exist yet."""
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

    def pause(self) -> bool:
        """Freeze all processes, or stop those that exist now. Return ``False`` if new ones must be stopped later."""
        if not self._paused:
            self._paused = True
            self._freezer = self._freezer or self._find_freezer()
            if self._freezer is not None and self._froze(self._freezer):
                return True
        if self._freezer is None:
            self._stopped |= descendants.stop_all(self._init, _ROUNDS)
        return self._freezer is not None

    def _froze(self, freezer: Freezer) -> bool:
        try:
            freezer.freeze(partial(descendants.below, self._init))
        except OSError:  # stop signals need no control group, and are better than nothing
            freezer.thaw()
            self._freezer, self._find_freezer = None, lambda: None
            return False
        return True

    def resume(self) -> None:
        """Let all processes go on."""
        if not self._paused:
            return
        self._paused = False
        if self._freezer is not None:
            self._freezer.thaw()
        else:
            descendants.continue_all(self._init, self._stopped)
            self._stopped.clear()

    def thaw(self) -> None:
        """Thaw frozen processes that were killed: they may have to wake up to die."""
        if self._paused and self._freezer is not None:
            self._freezer.thaw()
