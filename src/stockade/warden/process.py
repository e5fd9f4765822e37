"""The start of the warden's process, up to the moment when it serves."""

from __future__ import annotations

import _socket as socket
import gc
import os
import resource

from stockade.linux import faults, files, limits, places, probe, processes, uids
from stockade.warden import freezers, protocol
from stockade.warden.supervisor import Warden

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal  # the ``signal`` module imports ``enum``


def main(control_fd: int, caller_pid: int) -> None:
    """Serve the caller ``caller_pid`` on the socket ``control_fd``."""
    control = socket.socket(fileno=control_fd)
    try:
        caller = os.pidfd_open(caller_pid)
        if os.getppid() != caller_pid:
            return  # the caller died before it could be watched
        _prepare_process()
        facts = probe.probe(uids.first_uid())
        if not any("memory" in names for _, _, names in facts["hierarchies"]):
            processes.use_small_pages()  # a sample sees only the mapped part of a large one
    except ProcessLookupError:
        return
    except Exception as error:
        _say(control, "failed", message=faults.explain("start the warden", error))
        return
    if not _say(control, "hello", facts=facts):
        return  # the caller is gone already
    places.reclaim(places.FOLDER, os.geteuid())  # while the caller plans
    freezers.reclaim()
    gc.collect()
    gc.freeze()  # a collection would touch pages, and a fork copies touched pages
    gc.disable()
    Warden(control, caller, facts).stay()


def _prepare_process() -> None:
    """Leave the caller's session and folder; reset signals and soft limits; forbid core dumps."""
    if os.getsid(0) != os.getpid():  # the first process of a machine starts it in its own session
        os.setsid()
    try:
        files.write("/proc/self/comm", protocol.PROCESS_NAME)
    except OSError:
        pass  # only the displayed name
    os.chdir("/")
    os.umask(0o022)
    processes.default_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    limits.forbid_cores()  # every process of every run descends from this one
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _say(control: socket.socket, kind: str, **fields: Any) -> bool:
    try:
        control.sendall(protocol.encode(kind, **fields))
    except OSError:
        return False
    return True
