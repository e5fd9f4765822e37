"""A cell: fresh namespaces with a trusted init and a process that waits in them to become a guest.

Nothing in a cell depends on a policy, so one can be made ahead of demand. It is used once.
"""

from __future__ import annotations

import _socket as socket
import os
import stat
import struct
import sys

from stockade.linux import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
    from typing import Any
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_READY = {"ready", "set_up"}
LISTENER = "listener"
"""The message with which a filter's listener comes."""
COLLECT_FDS = "collect_fds"
"""The message with which the descriptor of the folder to collect from comes, and maybe one of what was copied in."""
_MOST_AT_ONCE = 2
_INSTANCE_FDS = 6  # descriptors of a cell


class Instance:
    """The warden's side of a cell: its init, and one end of each of the guest's pipes."""

    lasting = False
    """Whether the init outlives the run."""

    def __init__(self, init: int, fds: Sequence[int], *, without_namespaces: bool) -> None:
        """``init`` is the pid; ``fds`` its pidfd, the control socket, and the ends of the guest's four pipes."""
        self.init = init
        self._end_by = signal.SIGTERM if without_namespaces else signal.SIGKILL
        self.pidfd, control, self.stdin, self.stdout, self.stderr, self.channel = fds
        self.control = socket.socket(fileno=control)
        self.control.setblocking(False)  # with a timeout, even a look at what has come would wait
        self.listener = -1
        self.collect_fds: list[int] = []
        self._arrived: list[int] = []
        self._kinds_seen: set[str] = set()

    def receive(self, size: int) -> bytes:
        """Return what the cell's processes have sent, and keep the descriptors that may come with it."""
        ancillary_size = socket.CMSG_SPACE(4 * _MOST_AT_ONCE)
        data, ancillary, _, _ = self.control.recvmsg(
            size, ancillary_size, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        )
        self._arrived += descriptors(ancillary)
        return data

    def send(self, data: bytes) -> bytes:
        """Send the cell's processes as much of ``data`` as they take now; return the rest."""
        try:
            return data[self.control.send(data) :]
        except BlockingIOError:
            return data

    def take_listener(self) -> int:
        """Return the listener, which is the taker's from now on, or -1."""
        fd, self.listener = self.listener, -1
        return fd

    def accept_message(self, kind: str) -> bool:
        """Take a word of the cell's processes; return whether it is one of those that lead to ``ready``."""
        if kind in (LISTENER, COLLECT_FDS):
            return self._keep(kind)
        if kind not in _READY or kind in self._kinds_seen:
            return False
        self._kinds_seen.add(kind)
        return True

    def _keep(self, kind: str) -> bool:
        """Take what came with this message; return whether it is what was expected, and came for the first time."""
        came, self._arrived = self._arrived, []
        if kind == LISTENER and len(came) == 1 and self.listener < 0 and not _is_file(came[0]):
            self.listener = came[0]
        elif kind == COLLECT_FDS and came and not self.collect_fds and all(map(_is_file, came)):
            self.collect_fds = came
        else:
            for fd in came:
                os.close(fd)
            return False
        return True

    @property
    def ready(self) -> bool:
        """Whether the init is hardened and the guest's place is furnished."""
        return self._kinds_seen == _READY

    def take_stdin(self) -> int:
        """Return the end of the guest's standard input; it is the taker's from now on."""
        fd, self.stdin = self.stdin, -1
        return fd

    def kill(self) -> None:
        """Kill the init, and with it everything in its PID namespace (pid_namespaces(7)). The keeper of a bare cell,
        which has none, is told to do as much itself, and woken up for it if somebody has stopped it."""
        try:
            processes.kill(self.pidfd, self._end_by)
            if self._end_by == signal.SIGTERM:
                processes.kill(self.pidfd, signal.SIGCONT)
        except OSError:
            self.kill_at_once()

    def gone(self) -> bool:
        """Return whether the kernel says that the init is dead."""
        return processes.is_dead(self.pidfd)

    def dismiss(self) -> None:
        """End what is left of the cell: nothing more is wanted of it. The keeper of a bare cell, which waits for this,
        removes its folder."""
        self.kill()
        try:
            self.control.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has ended

    def kill_at_once(self) -> None:
        """Kill the init, whatever it is about to do."""
        for kill in (self._kill_by_pidfd, self._kill_by_pid):
            try:
                kill()
            except OSError:
                continue
            return

    def _kill_by_pidfd(self) -> None:
        processes.kill(self.pidfd)

    def _kill_by_pid(self) -> None:
        if not processes.is_dead(self.pidfd):  # so the number is still its own
            os.kill(self.init, signal.SIGKILL)

    def see(self) -> dict[str, Any]:
        """Return what the warden itself sees of the end, beyond what the init has said."""
        return {}

    def end_guest(self) -> None:
        """Kill the guest's first process alone, where that is known."""

    def has_guest(self) -> bool:
        """Return whether the guest's first process is there, dead or alive, where that is known."""
        return False

    def close(self) -> None:
        """Close the descriptors; the processes are somebody else's business."""
        self.control.close()
        own = (self.pidfd, self.stdin, self.stdout, self.stderr, self.channel, self.listener)
        for fd in (*own, *self.collect_fds, *self._arrived):
            if fd >= 0:
                os.close(fd)


class WorkerInstance(Instance):
    """A guest's place beside a keeper that stays when the guest is gone. It is ready when it is there."""

    lasting = True
    ready = True

    def __init__(self, worker: int, fds: Sequence[int]) -> None:
        """``fds`` are those of any cell, then the guest's own pidfd, a descriptor of the space that it may fill, and
        maybe its filter's listener."""
        super().__init__(worker, fds[:_INSTANCE_FDS], without_namespaces=False)
        self._guest, self._scratch, *listeners = fds[_INSTANCE_FDS:]
        self.listener = listeners[0] if listeners else -1

    def end_guest(self) -> None:
        """Kill the guest's first process, which has said that it is done."""
        try:
            processes.kill(self._guest)
        except OSError:
            self.kill()

    def has_guest(self) -> bool:
        """Return whether the guest's first process has not been reaped."""
        try:
            signal.pidfd_send_signal(self._guest, 0)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the descriptors."""
        super().close()
        os.close(self._guest)
        os.close(self._scratch)

    def see(self) -> dict[str, Any]:
        """Return what is left of the space that the guest could fill, which the keeper cannot see."""
        disk = os.fstatvfs(self._scratch)
        return {"disk_free": disk.f_bfree * disk.f_bsize, "inodes_free": disk.f_ffree}


def _is_file(fd: int) -> bool:
    """Return whether this is a folder or a file, and not a listener: one may have got lost on the way."""
    return stat.S_ISDIR(os.fstat(fd).st_mode) or stat.S_ISREG(os.fstat(fd).st_mode)


def send_with(sock: socket.socket, words: bytes, fds: Sequence[int]) -> bool:
    """Send ``words`` with descriptors; ``descriptors`` takes them out again. Return whether all of them went out."""
    rights = struct.pack(f"={len(fds)}i", *fds)
    return sock.sendmsg([words], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]) == len(words)


def descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors that came with a message (unix(7), SCM_RIGHTS)."""
    fds: list[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = len(content) - len(content) % 4
            fds += [int.from_bytes(content[at : at + 4], sys.byteorder) for at in range(0, whole, 4)]
    return fds
