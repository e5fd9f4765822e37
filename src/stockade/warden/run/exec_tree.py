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
_FRESH_SECONDS = 0.05
_UNKNOWN = 0


class Census:
    """The processes of one sandbox with the marks of their execs. All execs that ask within a short time share it.

    Each exec without a group is sampled ten times a second. If each sample looked at all processes of the host, a dozen
    execs would take all of the warden's time.
    """

    def __init__(self, init: int) -> None:
        self._init = init
        self._marks: dict[int, int] = {}
        self._taken = float("-inf")

    def marks(self) -> dict[int, int]:
        """Return the mark of each process below the init, or 0 where it cannot be read.

        The walk can miss an orphan that moves to the init meanwhile. A later sample counts it.
        """
        now = time.monotonic()
        if now - self._taken > _FRESH_SECONDS:
            found = {pid: _mark_of(pid) for pid in descendants.below(self._init)}
            self._marks = {pid: mark for pid, mark in found.items() if mark is not None}
            self._taken = now
        return self._marks


class ExecTree:
    """Finds the processes of one exec, wherever they are below the init of its sandbox."""

    head = 0
    """The pid of the first process, once it is known."""
    mark = 0
    """The inode number of the exec's UTS namespace, once it is known."""

    def __init__(self, init: int, group: GroupBelow | None, heads: Callable[[], set[int]], census: Census) -> None:
        """``heads`` returns the first processes of all execs below ``init``, and ``census`` is their sandbox's."""
        self._init, self._group, self._heads, self._census = init, group, heads, census

    def recent(self) -> list[int]:
        """Return the pids of the exec's processes, as they were a short time ago: for a sample."""
        if self._group is not None:
            return self._group.members()
        heads = self._heads() - {self.head}
        marks = self._census.marks().items()
        return [pid for pid, mark in marks if mark == self.mark or (mark == _UNKNOWN and pid not in heads)]

    def members(self) -> list[int]:
        """Return the pids of the exec's processes. One that cannot be attributed counts as one of them.

        Without a group, all processes of the host are looked at. A walk down the tree could miss an orphan that moves
        to the init meanwhile.
        """
        if self._group is not None:
            return self._group.members()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._may_be_ours(pid)]

    def _may_be_ours(self, pid: int) -> bool:
        if pid == self.head:
            return True
        mark = _mark_of(pid)
        if mark == _UNKNOWN:
            return pid not in self._heads() and self._is_alive_below(pid)
        return mark == self.mark

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


def _mark_of(pid: int) -> int | None:
    """Return the mark of a process, 0 if it may not be read, or ``None`` if the process has ended."""
    try:
        return os.stat(f"/proc/{pid}/ns/uts").st_ino
    except PermissionError:
        return _UNKNOWN
    except OSError:
        return None


def _signal_one(pidfd: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        pass
