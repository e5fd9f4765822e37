"""The pages that every guest of a worker writes to. One profiling run shows which pages these are.

From then on the kernel copies them together with each fork. To copy them one by one, at the first write to each, costs
several times as much (see ``linux/pinning``).
"""

from __future__ import annotations

import _socket as socket
import errno
import os
import select
import time

from stockade.linux import pinning
from stockade.warden import protocol
from stockade.warden.cold.instance import descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_CONTROL, _MOST_FDS = 1, 16
"""The position of the guest's control socket among its descriptors (see ``Instance``), and the most descriptors."""
_CHUNK = 1 << 12
_SECONDS = 2.0
"""Deadline of a profiling run, longer than any run takes. After it, the pages written so far count."""


class Prefault:
    """Learns these pages from one profiling run, and pins them in the worker."""

    def __init__(self, uid: int) -> None:
        """``uid`` is the guests' uid, or 0 if it is the worker's own. Pinned memory is charged to ``uid``, because the
        limit for one user would soon be too low for all workers.

        There must be no guest yet, because a guest could signal a process that has its uid.
        """
        self._ring = -1
        self._tried = False
        if uid:
            os.setresuid(uid, -1, -1)
        try:
            self._ring = pinning.open_ring()
        except OSError:
            pass  # guests are only slower without it
        finally:
            if uid:
                os.setresuid(0, -1, -1)

    @property
    def unknown(self) -> bool:
        """Whether the one profiling run is still to be made."""
        return self._ring >= 0 and not self._tried

    def watch(self, proc: int, pid: int, live: Callable[[], object]) -> None:
        """Let the guest ``pid`` ``live``, kill it, and pin the pages that it has written to.

        ``proc`` is a descriptor of /proc.
        """
        self._tried = True
        try:
            live()
            os.kill(pid, signal.SIGSTOP)  # else it would end by itself before its pages are read
            runs = self._own_pages(proc, pid)
        except (OSError, protocol.WireError):
            runs = []
        os.kill(pid, signal.SIGKILL)
        try:
            pinning.pin(self._ring, runs)
        except OSError:
            os.close(self._ring)
            self._ring = -1

    def _own_pages(self, proc: int, pid: int) -> list[pinning.Run]:
        fds: list[int] = []
        try:
            for name in ("maps", "pagemap"):  # some kernels lack them (CONFIG_PROC_PAGE_MONITOR)
                fds.append(os.open(f"{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc))
            return pinning.own_pages(*fds)
        finally:
            for fd in fds:
                os.close(fd)


class ProfilingRun:
    """The warden's part in a run that no caller asked for, played by the worker."""

    def __init__(self) -> None:
        self._ours, self.guest_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        """The guest gets ``guest_end`` instead of the worker's socket to the warden."""
        self._control: socket.socket | None = None

    def live(self, source: bytes | None, channel: int) -> None:
        """Wait until the guest is set up, and have it run ``source``, if there is one, to its completion marker.

        ``channel`` is our end of the guest's result channel.
        """
        until = time.monotonic() + _SECONDS
        self._ours.settimeout(_SECONDS)
        _, ancillary, _, _ = self._ours.recvmsg(_CHUNK, socket.CMSG_SPACE(4 * _MOST_FDS), socket.MSG_CMSG_CLOEXEC)
        fds, received = descriptors(ancillary), b""
        for number, fd in enumerate(fds):
            if number == _CONTROL:
                self._control = socket.socket(fileno=fd)
            else:
                os.close(fd)  # even a listener: when it is closed, refused calls fail at once
        if self._control is None:
            raise OSError(errno.ECHILD, "the profiling run failed to set up")
        if source is None:
            return
        self._control.sendall(protocol.source_message(source, 0))
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        while protocol.COMPLETION_MARKER not in received and poll.poll(max(0.0, until - time.monotonic()) * 1000):
            data = os.read(channel, _CHUNK)
            if not data:
                return
            received += data

    def close(self) -> None:
        """Close all ends."""
        for sock in (self._ours, self.guest_end, self._control):
            if sock is not None:
                sock.close()

    def leave(self) -> None:
        """Forget our end in the guest, where its descriptor is closed already."""
        self._ours.detach()
