"""A cell: fresh namespaces with a trusted init and a process that waits in them to become a guest.

Nothing in a cell depends on a policy, so one can be made ahead of demand. It is used once.
"""

from __future__ import annotations

import _socket as socket
import os

from stockade.linux import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_HAND_OVER_SECONDS = 5.0


class Cell:
    """The warden's side of a cell: its init, and one end of each of the guest's pipes."""

    def __init__(self, init: int, fds: Sequence[int]) -> None:
        """``init`` is the pid; ``fds`` its pidfd, the control socket, and the ends of the guest's four pipes."""
        self.init = init
        self.pidfd, control, self.stdin, self.stdout, self.stderr, self.channel = fds
        self.control = socket.socket(fileno=control)
        self.control.settimeout(_HAND_OVER_SECONDS)
        self.ready = False

    def take_stdin(self) -> int:
        """Return the end of the guest's standard input; it is the taker's from now on."""
        fd, self.stdin = self.stdin, -1
        return fd

    def kill(self) -> None:
        """Kill the init, and with it everything in its PID namespace (pid_namespaces(7))."""
        processes.kill(self.pidfd)

    def close(self) -> None:
        """Close the descriptors; the processes are somebody else's business."""
        self.control.close()
        for fd in (self.pidfd, self.stdin, self.stdout, self.stderr, self.channel):
            if fd >= 0:
                os.close(fd)
