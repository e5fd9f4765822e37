"""An instance: fresh namespaces with a trusted init and a process that waits in them to become a guest.

An instance depends on little of a launch, above all on its base. Many runs share that, so the warden can make an
instance ahead of demand. Each serves one run, holds one zygote, or serves all execs of one sandbox that lives on.
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
"""The kind of message that carries the listener of a system-call filter."""
COLLECT_FDS = "collect_fds"
"""The kind of message that carries a descriptor of the folder to collect, and maybe one of the list of copied files."""
PROXY_LISTENER = "proxy_listener"
"""The kind of message that carries a listening socket of the guest's network, for the proxy of the run."""
TERMINALS = "terminals"
"""The kind of message that carries a descriptor of the folder of a living instance's pseudo-terminals."""
_MAX_FDS = 2  # of one message
_INSTANCE_FDS = 6


class Instance:
    """The warden's side of an instance: its init, and one end of each of the guest's pipes."""

    lasting = False
    """Whether the init outlives the run."""

    def __init__(self, init: int, fds: Sequence[int], *, without_namespaces: bool) -> None:
        """``init`` is a pid. ``fds`` are its pidfd, the control socket, and the ends of the guest's four pipes."""
        self.init = init
        self._end_by = signal.SIGTERM if without_namespaces else signal.SIGKILL
        self.pidfd, control, self.stdin, self.stdout, self.stderr, self.channel = fds
        self.control = socket.socket(fileno=control)
        self.control.setblocking(False)  # a socket with a timeout would wait even when it is only polled
        self.listener = -1
        self.proxy_listener = -1
        self.collect_fds: list[int] = []
        self._arrived: list[int] = []
        self._kinds_seen: set[str] = set()

    def receive(self, size: int) -> bytes:
        """Return bytes from the instance's processes, and keep the descriptors that came with them."""
        ancillary_size = socket.CMSG_SPACE(4 * _MAX_FDS)
        data, ancillary, _, _ = self.control.recvmsg(
            size, ancillary_size, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        )
        self._arrived += descriptors(ancillary)
        return data

    def send(self, data: bytes) -> bytes:
        """Send the instance's processes as much of ``data`` as the socket accepts now; return the rest."""
        try:
            return data[self.control.send(data) :]
        except BlockingIOError:
            return data

    def take_listener(self) -> int:
        """Return the listener, or -1. The caller owns it from now on."""
        fd, self.listener = self.listener, -1
        return fd

    def take_proxy_listener(self) -> int:
        """Return the listening socket for a proxy, or -1. The caller owns it from now on."""
        fd, self.proxy_listener = self.proxy_listener, -1
        return fd

    def take_arrived(self) -> int:
        """Return a descriptor that came with the last message, or -1. The caller owns it from now on."""
        return self._arrived.pop(0) if self._arrived else -1

    def accept_message(self, kind: str) -> bool:
        """Record a message of the instance's processes; return whether it was expected."""
        if kind in (LISTENER, COLLECT_FDS, PROXY_LISTENER):
            return self._accept_fds(kind)
        if kind not in _READY or kind in self._kinds_seen:
            return False
        self._kinds_seen.add(kind)
        return True

    def _accept_fds(self, kind: str) -> bool:
        """Keep the descriptors of this message; return whether they were expected and came for the first time."""
        came, self._arrived = self._arrived, []
        if kind == LISTENER and len(came) == 1 and self.listener < 0 and not _is_file(came[0]):
            self.listener = came[0]
        elif kind == PROXY_LISTENER and len(came) == 1 and self.proxy_listener < 0 and _is_socket(came[0]):
            self.proxy_listener = came[0]
        elif kind == COLLECT_FDS and came and not self.collect_fds and all(map(_is_file, came)):
            self.collect_fds = came
        else:
            for fd in came:
                os.close(fd)
            return False
        return True

    @property
    def ready(self) -> bool:
        """Whether the init is hardened and the process that becomes the guest is set up."""
        return self._kinds_seen == _READY

    def take_stdin(self) -> int:
        """Return the write end of the guest's standard input. The caller owns it from now on."""
        fd, self.stdin = self.stdin, -1
        return fd

    def kill(self) -> None:
        """Kill the init, and with it everything in its PID namespace (pid_namespaces(7)).

        A reaper has no such namespace. It gets SIGTERM and kills its descendants itself; SIGCONT wakes it if someone
        has stopped it.
        """
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
        """End the rest of the instance after its last use. A reaper removes the run's folder only then."""
        self.kill()
        try:
            self.control.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the process has ended

    def kill_at_once(self) -> None:
        """Kill the init immediately with SIGKILL, even a reaper."""
        for kill in (self._kill_by_pidfd, self._kill_by_pid):
            try:
                kill()
            except OSError:
                continue
            return

    def _kill_by_pidfd(self) -> None:
        processes.kill(self.pidfd)

    def _kill_by_pid(self) -> None:
        if not processes.is_dead(self.pidfd):  # alive, so no other process has its pid
            os.kill(self.init, signal.SIGKILL)

    def see(self) -> dict[str, Any]:
        """Return the measurements of the end that the warden itself makes, in addition to the init's report."""
        return {}

    def end_guest(self) -> None:
        """Kill only the guest's first process, if it is known."""

    def has_guest(self) -> bool:
        """Return whether the guest's first process is unreaped, dead or alive; ``False`` if it is not known."""
        return False

    def close(self) -> None:
        """Close the descriptors. The processes are not affected."""
        self.control.close()
        own = (self.pidfd, self.stdin, self.stdout, self.stderr, self.channel, self.listener, self.proxy_listener)
        for fd in (*own, *self.collect_fds, *self._arrived):
            if fd >= 0:
                os.close(fd)


class WorkerInstance(Instance):
    """The instance of one warm guest. Its worker outlives the guest. The instance is ready as soon as it exists."""

    lasting = True
    ready = True

    def __init__(self, worker: int, fds: Sequence[int]) -> None:
        """``fds`` are those of any instance, then the guest's pidfd, a descriptor of its writable space, and maybe the
        listener of its filter."""
        super().__init__(worker, fds[:_INSTANCE_FDS], without_namespaces=False)
        self._guest, self._scratch, *listeners = fds[_INSTANCE_FDS:]
        self.listener = listeners[0] if listeners else -1

    def end_guest(self) -> None:
        """Kill the guest's first process, which has written its completion marker."""
        try:
            processes.kill(self._guest)
        except OSError:
            self.kill()

    def has_guest(self) -> bool:
        """Return whether the guest's first process is unreaped."""
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
        """Return the free space and inodes in the guest's writable file system, which the worker cannot see."""
        disk = os.fstatvfs(self._scratch)
        return {"disk_free": disk.f_bfree * disk.f_bsize, "inodes_free": disk.f_ffree}


def _is_file(fd: int) -> bool:
    """Return whether ``fd`` is a folder or a file, so no listener: a message may have lost its own descriptor."""
    return stat.S_ISDIR(os.fstat(fd).st_mode) or stat.S_ISREG(os.fstat(fd).st_mode)


def _is_socket(fd: int) -> bool:
    return stat.S_ISSOCK(os.fstat(fd).st_mode)


def send_with(sock: socket.socket, message: bytes, fds: Sequence[int]) -> bool:
    """Send ``message`` with descriptors, which ``descriptors`` extracts; return whether the whole message was sent."""
    rights = struct.pack(f"={len(fds)}i", *fds)
    return sock.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]) == len(message)


def descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors from the ancillary data of a message (unix(7), SCM_RIGHTS)."""
    fds: list[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = len(content) - len(content) % 4
            fds += [int.from_bytes(content[at : at + 4], sys.byteorder) for at in range(0, whole, 4)]
    return fds
