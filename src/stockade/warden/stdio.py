"""The standard streams of a guest: both ends of its pipes, or of a terminal of its own.

Each list of ends has the order of the streams: standard input, output, error, and the result channel. A terminal is one
descriptor for input and output on the warden's side, where -1 stands for the others.
"""

from __future__ import annotations

import fcntl
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

STREAMS = 4
# ioctl_tty(2); the module ``termios`` has not all of these
_TIOCSPTLCK, _TIOCGPTPEER, _TIOCSWINSZ = 0x40045431, 0x5441, 0x5414


class Ends:
    """The warden's ends of one guest's streams."""

    def __init__(self, ends: Sequence[int]) -> None:
        self.stdin, self.stdout, self.stderr, self.channel = ends

    def close(self) -> None:
        """Close the descriptors. A second call closes nothing: their numbers may belong to others by then."""
        ends = (self.stdin, self.stdout, self.stderr, self.channel)
        self.stdin = self.stdout = self.stderr = self.channel = -1
        close_all(ends)


def open_pipes(uid: int | None) -> tuple[list[int], list[int]]:
    """Return the warden's ends, which never block, and the guest's ends, which belong to ``uid`` if root opens them."""
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for number in range(STREAMS):
            read, write = os.pipe2(os.O_CLOEXEC)
            ours.append(write if number == 0 else read)
            theirs.append(read if number == 0 else write)
            os.set_blocking(ours[-1], False)
            _give(theirs[-1], uid)  # or the guest could not open /dev/stderr, which leads to its own pipe
    except OSError:
        close_all((*ours, *theirs))
        raise
    return ours, theirs


def open_terminal(terminals: int, size: tuple[int, int], uid: int | None) -> tuple[list[int], list[int]]:
    """Return the same for a fresh terminal. ``terminals`` is the folder of the sandbox's own pseudo-terminals.

    The guest can open the terminal again by its name. ``size`` has its rows and columns.
    """
    fds: list[int] = []
    try:
        fds.append(os.open("ptmx", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=terminals))
        fcntl.ioctl(fds[0], _TIOCSPTLCK, struct.pack("i", 0))
        resize(fds[0], *size)
        fds.append(fcntl.ioctl(fds[0], _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
        _give(fds[1], uid)
        fds.append(fcntl.fcntl(fds[0], fcntl.F_DUPFD_CLOEXEC, 0))
        fds += [fcntl.fcntl(fds[1], fcntl.F_DUPFD_CLOEXEC, 0) for _ in range(STREAMS - 1)]
    except OSError:
        close_all(fds)
        raise
    return [fds[2], fds[0], -1, -1], [fds[1], *fds[3:]]


def resize(terminal: int, rows: int, columns: int) -> None:
    """Set the size of a terminal; its foreground processes get SIGWINCH."""
    fcntl.ioctl(terminal, _TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def close_all(fds: Sequence[int]) -> None:
    """Close these descriptors."""
    for fd in fds:
        if fd >= 0:
            os.close(fd)


def _give(fd: int, uid: int | None) -> None:
    if uid is not None:
        os.fchown(fd, uid, uid)
