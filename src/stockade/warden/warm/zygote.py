"""A warm interpreter: it waits inside a sandbox of its own until it is told to make a copy of itself, and never runs
what a guest wrote nor reads what one said.

Each copy becomes the init of a new PID namespace, a keeper, in which guests run one after another: copies of the
keeper. So a guest is born in the groups, in the PID namespace and in the network of its slot, and nothing has to be
moved there.
"""

from __future__ import annotations

import _socket as socket
import gc
import os
import time

from stockade.linux import libc, processes
from stockade.warden import protocol
from stockade.warden.cold.init import CONTROL
from stockade.warden.cold.instance import descriptors, send_with
from stockade.warden.warm.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from stockade.warden.warm.worker import Embedded, WarmUpJob

_MOST_FDS = 16
_LINGER_SECONDS = 0.05
_kept: list[object] = []
"""What a guest never takes down: to free it would be to write to it, page by page."""
_NAMESPACES = processes.NEW_PID | processes.NEW_NS | processes.NEW_NET | processes.NEW_IPC


def wait(warm_up_job: WarmUpJob | None, embedded: Embedded | None = None) -> dict[str, Any]:
    """Make copies for as long as the warden lives. Returns in a guest alone, with its launch. ``embedded`` is an
    interpreter that this process was made for, if it is another than the one that runs this."""
    os.set_inheritable(CONTROL, False)
    control = socket.socket(fileno=CONTROL)
    itself = os.pidfd_open(os.getpid())
    decoder = protocol.Decoder()
    gc.collect()
    libc.trim()
    gc.freeze()  # a collection would write to every object, and each page written to is copied
    control.sendall(protocol.encode("warm"))
    while True:
        data, ancillary, _, _ = control.recvmsg(1 << 16, socket.CMSG_SPACE(4 * _MOST_FDS), socket.MSG_CMSG_CLOEXEC)
        if not data:
            os._exit(0)
        fds = descriptors(ancillary)
        for _, fields in decoder.feed(data):
            pid = processes.clone(_NAMESPACES)
            if pid == 0:
                control.detach()  # a keeper closes it, and in a guest its number is another's
                worker = Worker(
                    parent=itself,
                    control=fds[0],
                    cgroup_fds=fds[1:],
                    uid=fields["uid"],
                    steps=fields["steps"],
                    warm_up_job=warm_up_job,
                    embedded=embedded,
                )
                _kept.append(worker)
                return worker.serve()
            _tell_of(pid, fds[0])
            for fd in fds:
                os.close(fd)
        _reap()


def _tell_of(worker: int, control: int) -> None:
    """Send the warden a pidfd of the copy, over the copy's own socket: it must be able to kill a silent one."""
    try:
        pidfd = os.pidfd_open(worker)
    except OSError:
        return  # the copy says so itself when it makes its first guest
    try:
        send_with(socket.socket(fileno=os.dup(control)), protocol.encode("born"), [pidfd])
    except OSError:
        pass  # the warden has let go of it
    finally:
        os.close(pidfd)


def refuse(message: str) -> NoReturn:
    """Say why there is nothing to copy, and end."""
    socket.socket(fileno=CONTROL).sendall(protocol.encode("refused", message=message))
    os._exit(1)


def flush() -> None:
    """Flush the C library's streams (fflush(3)), which extension modules may have written to."""
    libc.flush()


def linger() -> None:
    """Wait to be killed, as who has announced its end is at once. To end a process takes a processor half a
    millisecond, and the warden may have been woken on this one."""
    time.sleep(_LINGER_SECONDS)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
