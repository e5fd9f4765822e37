"""The pages that every guest of a keeper writes to. One guest lives from its fork to its end for nobody, and the kernel
tells which they are; from then on each guest gets its own copies of them as it is forked. One by one they cost several
times as much (see ``linux/pinning``).
"""

from __future__ import annotations

import _socket as socket
import errno
import os
import select
import struct
import time

from stockade.linux import pinning
from stockade.warden import wire
from stockade.warden.cell import descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_CONTROL, _CHANNEL, _GUEST = 1, 5, 6
"""Which of the descriptors is which that a guest sends; see ``Cell`` and ``Lasting``."""
_RUN = struct.Struct("=QQ?")
_MOST_FDS = 16
_CHUNK = 1 << 12
_ANNOUNCED = b"\0stockade\0"  # see warden/outlets.py
_SECONDS = 2.0
"""More than any trial takes; past that it is looked at as it is."""


class Hot:
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

    def learn(self, runs: Iterable[pinning.Run]) -> None:
        """Have these pages copied by each fork from now on."""
        self._tried = True
        try:
            pinning.pin(self._ring, runs)
        except OSError:
            os.close(self._ring)
            self._ring = -1


class Trial:
    """A guest that nobody has asked for, and who looks on: a copy of the keeper, so that neither the keeper nor the
    guest does more meanwhile than it always does. What is the guest's alone then, it has written to."""

    def __init__(self, proc: int, source: bytes | None) -> None:
        """``proc`` is a descriptor of the keeper's /proc, ``source`` what the guest is to run; ``None`` for nothing."""
        self._ours, self.slot = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        """In the place of the keeper's way to the warden."""
        self._told, tell = os.pipe2(os.O_CLOEXEC)
        if os.fork() == 0:
            try:
                for run in self._observe(proc, source):
                    os.write(tell, _RUN.pack(*run))
            finally:
                os._exit(0)
        os.close(tell)

    def _observe(self, proc: int, source: bytes | None) -> list[pinning.Run]:
        """Have the guest live, end it, and return what it has written to."""
        until = time.monotonic() + _SECONDS
        self._ours.settimeout(_SECONDS)
        _, ancillary, _, _ = self._ours.recvmsg(_CHUNK, socket.CMSG_SPACE(4 * _MOST_FDS), socket.MSG_CMSG_CLOEXEC)
        fds = descriptors(ancillary)
        if len(fds) < _GUEST + 1:
            raise OSError(errno.ECHILD, "it was not furnished")
        for fd in fds[_GUEST + 1 :]:  # a listener among them: nobody answers, so nobody may wait for an answer
            os.close(fd)
        if source is not None:
            os.write(fds[_CONTROL], wire.usual(source, 0))
            _wait_for_announcement(fds[_CHANNEL], until)
        guest = fds[_GUEST]
        signal.pidfd_send_signal(guest, signal.SIGSTOP)  # or it ends by itself in a moment
        runs = _own_pages(proc, _pid(proc, guest))
        signal.pidfd_send_signal(guest, signal.SIGKILL)
        return runs

    def conclude(self) -> Iterable[pinning.Run]:
        """Return what was found; in the keeper."""
        self._ours.close()
        self.slot.close()
        with open(self._told, "rb") as file:
            told = file.read()
        return _RUN.iter_unpack(told[: len(told) // _RUN.size * _RUN.size])

    def leave(self) -> None:
        """Forget what is no longer ours; in the guest, which has closed it."""
        self._ours.detach()


def _wait_for_announcement(channel: int, until: float) -> None:
    poll, told = select.poll(), b""
    poll.register(channel, select.POLLIN)
    while _ANNOUNCED not in told and poll.poll(max(0.0, until - time.monotonic()) * 1000):
        data = os.read(channel, _CHUNK)
        if not data:
            return
        told += data


def _pid(proc: int, pidfd: int) -> int:
    fd = os.open(f"self/fdinfo/{pidfd}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    lines = os.read(fd, _CHUNK).splitlines()
    os.close(fd)
    return int(next(line.split()[1] for line in lines if line.startswith(b"Pid:")))


def _own_pages(proc: int, pid: int) -> list[pinning.Run]:
    fds: list[int] = []
    try:
        for name in ("maps", "pagemap"):
            fds.append(os.open(f"{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc))
    except OSError:
        return []  # a kernel without them (CONFIG_PROC_PAGE_MONITOR): there is nothing to say
    return pinning.own_pages(*fds)
