"""The warden's process: what it does before it serves."""

from __future__ import annotations

import _socket as socket
import gc
import os
import resource

from stockade import _probe
from stockade.linux import places, processes, uids
from stockade.warden import wire
from stockade.warden.server import Warden

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the ``signal`` module imports ``enum``


def main(control_fd: int, caller_pid: int) -> None:
    """Serve the caller ``caller_pid`` on the socket ``control_fd``."""
    try:
        caller = os.pidfd_open(caller_pid)
    except ProcessLookupError:
        return
    if os.getppid() != caller_pid:
        return  # the caller died before it could be watched
    os.setsid()
    os.chdir("/")
    os.umask(0o022)
    processes.default_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    control = socket.socket(fileno=control_fd)
    facts = _probe.probe(uids.first_uid())
    try:
        control.sendall(wire.encode("hello", facts=facts))
    except OSError:
        return  # the caller is gone already
    places.reclaim(places.FOLDER, os.geteuid())  # while the caller plans
    gc.collect()
    gc.freeze()  # a fork copies what a collection touches
    gc.disable()
    Warden(control, caller, facts).stay()
