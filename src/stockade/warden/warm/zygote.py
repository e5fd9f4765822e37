"""A zygote: a warm interpreter that waits in a sandbox of its own and forks workers on request. It never runs guest
code and never reads anything that a guest wrote.

Each fork becomes a worker, the init of a new PID namespace, and forks guests there, one after another. So a guest is
born in the control groups, the PID namespace and the network of its worker, and no process has to be moved there.
"""

from __future__ import annotations

import _socket as socket
import gc
import os
import time

from stockade.linux import faults, libc, processes
from stockade.warden import protocol
from stockade.warden.cold.init import CONTROL
from stockade.warden.cold.instance import descriptors, send_with
from stockade.warden.warm.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from stockade.warden.warm.guest import WarmUpJob
    from stockade.warden.warm.worker import Embedded

_MOST_FDS = 16
_KILL_SECONDS = 0.05
_kept: list[object] = []
"""Objects that a guest never frees: to free them would write to their pages, and so copy the pages."""
_NAMESPACES = processes.NEW_PID | processes.NEW_NS | processes.NEW_NET | processes.NEW_IPC


def wait(warm_up_job: WarmUpJob | None, embedded: Embedded | None = None) -> dict[str, Any]:
    """Fork workers for as long as the warden lives. Only a guest returns from here, with its launch.

    ``embedded`` is the interpreter that runs the jobs, if it is another one than this Python.
    """
    os.set_inheritable(CONTROL, False)
    control = socket.socket(fileno=CONTROL)
    itself = os.pidfd_open(os.getpid())
    decoder = protocol.Decoder()
    gc.collect()
    libc.trim()
    gc.freeze()  # a collection would write to every object, and each write to a shared page copies the page
    control.sendall(protocol.encode("warm"))
    while True:
        data, ancillary, _, _ = control.recvmsg(1 << 16, socket.CMSG_SPACE(4 * _MOST_FDS), socket.MSG_CMSG_CLOEXEC)
        if not data:
            os._exit(0)
        fds = descriptors(ancillary)
        for _, fields in decoder.feed(data):
            try:
                pid = processes.clone(_NAMESPACES)
            except OSError as error:
                _send_failure(fds[0], error)
                pid = -1
            if pid == 0:
                control.detach()  # the worker closes the descriptor, and a guest has another file at its number
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
            if pid > 0:
                _send_pidfd(pid, fds[0])
            for fd in fds:
                os.close(fd)
        _reap()


def _send_pidfd(worker: int, control: int) -> None:
    """Send the warden a pidfd of the worker, over the worker's own socket. The warden must be able to kill it."""
    try:
        pidfd = os.pidfd_open(worker)
    except OSError:
        return  # the worker sends one itself with its first guest
    try:
        send_with(socket.socket(fileno=os.dup(control)), protocol.encode("born"), [pidfd])
    except OSError:
        pass  # the warden has closed the socket
    finally:
        os.close(pidfd)


def _send_failure(control: int, error: OSError) -> None:
    """Report over the socket of a worker why it was not made."""
    try:
        message = protocol.encode("failed", message=faults.explain("fork a worker", error))
        socket.socket(fileno=os.dup(control)).sendall(message)
    except OSError:
        pass  # the warden has closed the socket, or notices that it is closed


def refuse(message: str) -> NoReturn:
    """Report why this interpreter cannot be kept warm, and end."""
    socket.socket(fileno=CONTROL).sendall(protocol.encode("refused", message=message))
    os._exit(1)


def flush() -> None:
    """Flush the C library's streams (fflush(3)), which extension modules may have written to."""
    libc.flush()


def await_kill() -> None:
    """Wait for the warden to kill this process, which it does when it reads the completion marker.

    To end a process costs a processor half a millisecond, and the warden may be about to run on this one.
    """
    time.sleep(_KILL_SECONDS)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
