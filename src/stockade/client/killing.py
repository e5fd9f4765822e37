"""End a warden that does not work any more, and remember it until it is dead."""

from __future__ import annotations

import socket
import subprocess
from contextlib import suppress

from stockade.linux import descendants

_KILL_SECONDS = 0.5
_undead: list[subprocess.Popen[bytes]] = []
"""Wardens that are killed and not dead yet."""


def kill(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    """Kill a warden; ``control`` is the caller's end of its control socket.

    If a freezer of cgroup v1 holds the warden, it dies only when somebody thaws it. Its helpers would live as long, so
    they are killed as well.
    """
    process.kill()
    try:
        process.wait(_KILL_SECONDS)
    except subprocess.TimeoutExpired:
        descendants.kill_below(process.pid)
        with suppress(OSError):
            control.shutdown(socket.SHUT_RDWR)  # for all who wait to be connected
        _undead.append(process)


def reap_late() -> None:
    """Reap wardens that have died since."""
    _undead[:] = [process for process in _undead if process.poll() is None]
