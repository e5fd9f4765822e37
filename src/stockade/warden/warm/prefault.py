"""The pages that every guest of a keeper writes to. A guest that is nobody's lives once, from its fork to its end, and
the kernel tells which they are; from then on each guest gets its own copies of them as it is forked. One by one they
cost several times as much (see ``linux/pinning``).
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
"""Which of its descriptors a guest hears its launch on, see ``Instance``; and how many come at most."""
_CHUNK = 1 << 12
_SECONDS = 2.0
"""More than any trial takes; past that it is looked at as it is."""


class Prefault:
    """What a keeper knows of them."""

    def __init__(self, uid: int) -> None:
        """``uid`` is the guests', if it is another than this process's; what is pinned counts as theirs, since to one
        user it would soon be too much. There must be no guest yet: it could send signals to who has its uid."""
        self._ring = -1
        self._tried = False
        if uid:
            os.setresuid(uid, -1, -1)
        try:
            self._ring = pinning.open_ring()
        except OSError:
            pass  # then guests are only slower
        finally:
            if uid:
                os.setresuid(0, -1, -1)

    @property
    def unknown(self) -> bool:
        """Whether a trial is still to be made, of which there is one."""
        return self._ring >= 0 and not self._tried

    def watch(self, proc: int, pid: int, live: Callable[[], object]) -> None:
        """Have the guest ``pid`` ``live``, end it, and have the pages that it has written to copied from now on.
        ``proc`` is a descriptor of /proc."""
        self._tried = True
        try:
            live()
            os.kill(pid, signal.SIGSTOP)  # it is going to end by itself
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
            for name in ("maps", "pagemap"):  # or a kernel without them (CONFIG_PROC_PAGE_MONITOR)
                fds.append(os.open(f"{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc))
            return pinning.own_pages(*fds)
        finally:
            for fd in fds:
                os.close(fd)


class ProfilingRun:
    """The other end of a guest that nobody has asked for."""

    def __init__(self) -> None:
        self._ours, self.slot = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        """In the place of the keeper's way to the warden."""
        self._way: socket.socket | None = None

    def live(self, source: bytes | None, channel: int) -> None:
        """Wait until the guest is furnished, and have it run ``source`` to its end, if there is any. ``channel`` is
        what it announces that end on."""
        until = time.monotonic() + _SECONDS
        self._ours.settimeout(_SECONDS)
        _, ancillary, _, _ = self._ours.recvmsg(_CHUNK, socket.CMSG_SPACE(4 * _MOST_FDS), socket.MSG_CMSG_CLOEXEC)
        fds, received = descriptors(ancillary), b""
        for number, fd in enumerate(fds):
            if number == _CONTROL:
                self._way = socket.socket(fileno=fd)
            else:
                os.close(fd)  # a listener among them: nobody answers, so nobody waits for an answer
        if self._way is None:
            raise OSError(errno.ECHILD, "it was not furnished")
        if source is None:
            return
        self._way.sendall(protocol.source_message(source, 0))
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        while protocol.COMPLETION_MARKER not in received and poll.poll(max(0.0, until - time.monotonic()) * 1000):
            data = os.read(channel, _CHUNK)
            if not data:
                return
            received += data

    def close(self) -> None:
        """Close all ends."""
        for sock in (self._ours, self.slot, self._way):
            if sock is not None:
                sock.close()

    def leave(self) -> None:
        """Forget our end, in the guest, which has closed it."""
        self._ours.detach()
