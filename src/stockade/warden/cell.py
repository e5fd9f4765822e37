"""A cell: fresh namespaces with a trusted init and a process that waits in them to become a guest.

Nothing in a cell depends on a policy, so one can be made ahead of demand. It is used once.
"""

from __future__ import annotations

import _socket as socket
import os

from stockade.linux import cgroups, processes
from stockade.warden import inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
    from typing import Any
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_HAND_OVER_SECONDS = 5.0
_NAMESPACES = processes.NEW_NS | processes.NEW_PID | processes.NEW_IPC | processes.NEW_UTS


class Cell:
    """The warden's side of a cell: its init, one end of each of the guest's pipes, and what it holds."""

    def __init__(
        self, init: int, control: socket.socket, ends: Sequence[int], uid: int | None, group: cgroups.Group | None
    ) -> None:
        """``ends`` are the warden's of standard input, output, error and the result channel."""
        self.init = init
        self.pidfd = os.pidfd_open(init)
        self.control = control
        self.stdin, self.stdout, self.stderr, self.channel = ends
        self.uid = uid
        self.group = group
        self.leased = False
        self.base: Sequence[Any] = ()
        self.ready = False

    def kill(self) -> None:
        """Kill the init, and with it everything in its PID namespace (pid_namespaces(7))."""
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass  # dead already

    def close(self) -> None:
        """Close the descriptors; the processes are somebody else's business."""
        self.control.close()
        for fd in (self.pidfd, self.stdin, self.stdout, self.stderr, self.channel):
            if fd >= 0:
                os.close(fd)


def make(
    *,
    privileged: bool,
    warden: int,
    own_network: bool,
    uid: int | None,
    group: cgroups.Group | None,
    base: Sequence[Any],
) -> Cell:
    """Fork a cell and furnish it with the steps of ``base``.

    ``warden`` is the warden's own pidfd, ``uid`` the host uid leased where root starts the run.
    """
    flags = _NAMESPACES | (processes.NEW_NET if own_network else 0) | (0 if privileged else processes.NEW_USER)
    guest_in, stdin = os.pipe2(os.O_CLOEXEC)
    pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
    guest_ends = [guest_in, *(write for _, write in pipes)]
    own_ends = [stdin, *(read for read, _ in pipes)]
    control, guest_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    group_fds = group.open_entrances() if group else []
    plan = inside.Inside(
        privileged=privileged,
        warden=warden,
        ends=guest_ends,
        control=guest_control,
        group_fds=group_fds,
        uid=uid if uid is not None else os.geteuid(),
        gid=uid if uid is not None else os.getegid(),
        base=base,
    )
    try:
        pid = processes.clone(flags)
    except OSError:
        control.close()
        for fd in own_ends:
            os.close(fd)
        raise
    else:
        if pid == 0:
            plan.run()
    finally:
        guest_control.close()
        for fd in (*guest_ends, *group_fds):
            os.close(fd)
    for fd in own_ends:
        os.set_blocking(fd, False)
    control.settimeout(_HAND_OVER_SECONDS)
    return Cell(pid, control, own_ends, uid, group)
