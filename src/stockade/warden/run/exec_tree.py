"""The processes of one exec in a living instance: how to find, signal and end them.

A control group of the exec's own holds them. Without one, the exec's UTS namespace marks them: a process
inherits it, and without a capability none can leave it.
"""

from __future__ import annotations

import os
import time

from stockade.linux import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from stockade.linux.cgroups import GroupBelow
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_ROUNDS = 50
_PAUSE_SECONDS = 0.0005


class ExecTree:
    """Finds the processes of one exec, wherever they are below the init of its sandbox."""

    head = 0
    """The pid of the first process, once it is known."""
    mark = 0
    """The inode number of the exec's UTS namespace, once it is known."""

    def __init__(self, init: int, group: GroupBelow | None, heads: Callable[[], set[int]]) -> None:
        """``heads`` returns the first processes of all execs below ``init``."""
        self._init, self._group, self._heads = init, group, heads

    def members(self) -> list[int]:
        """Return the pids of the exec's processes. One that cannot be attributed counts as one of them.

        Without a group, all processes of the host are looked at. A walk down the tree could miss an orphan that moves
        to the init meanwhile.
        """
        if self._group is not None:
            return self._group.members()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._may_be_ours(pid)]

    def _may_be_ours(self, pid: int) -> bool:
        try:
            return pid == self.head or os.stat(f"/proc/{pid}/ns/uts").st_ino == self.mark
        except PermissionError:
            return pid not in self._heads() and self._is_alive_below(pid)
        except OSError:
            return False  # it has ended

    def _is_alive_below(self, pid: int) -> bool:
        return descendants.is_below(pid, self._init) and descendants.state(pid) not in ("Z", "X", "")

    def signal(self, number: int) -> None:
        """Send a signal to every process that is there now."""
        self._send(number)

    def kill(self) -> bool:
        """Kill every process; return ``False`` if new ones kept appearing.

        A process with a pending SIGKILL forks no more. So each round finds only what others have forked since the
        round before, and the search ends when a round finds nothing new.
        """
        if self._group is not None and self._group.kill():
            return True
        killed: set[int] = set()
        for _ in range(_ROUNDS):
            found = self._send(signal.SIGKILL)
            if found <= killed:
                return True
            killed |= found
            time.sleep(_PAUSE_SECONDS)
        return False

    def _send(self, number: int) -> set[int]:
        """Signal the members and return their pids. A second look proves that no pid has changed its process."""
        fds: dict[int, int] = {}
        try:
            for pid in self.members():
                try:
                    fds[pid] = os.pidfd_open(pid)
                except ProcessLookupError:
                    pass  # it has ended
            found = set(self.members())
            for pid, fd in fds.items():
                if pid in found:
                    _signal_one(fd, number)
            return found
        finally:
            for fd in fds.values():
                os.close(fd)


def _signal_one(pidfd: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        pass
