"""Finds the helper processes of this process's runs, and injects faults into them.

Parents, children and PID namespaces show the role of a process, so no name inside the package matters."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from stockade.linux import cgroups
from tests.support import host

_PIDFD_GETFD = 438
_numbers = itertools.count()


def warden() -> int | None:
    """Return the supervisor: the only child of this process that leads a session."""
    return next((pid for pid in _children(os.getpid()) if os.getsid(pid) == pid), None)


def find(role: str) -> int | None:
    """Return the pid of one process with this role, or ``None`` without one."""
    if role == "caller":
        return os.getpid()
    top = warden()
    if top is None or role == "warden":
        return top
    if role == "collector":
        return next((pid for pid in _children(top) if not _children(pid) and _holds_workspace(pid)), None)
    if role == "reaper":  # it takes the place of an init, in an instance without namespaces; an idle one is last
        found = [pid for spawner in _children(top) for pid in _children(spawner) if _children(pid) and not is_init(pid)]
        return min(found, key=lambda pid: any(map(_holds_socket, _children(pid))), default=None)
    for spawner in _children(top):
        for init in filter(is_init, _children(spawner)):
            found = {"spawner": spawner, "init": init, "first process": next(iter(_children(init)), None)}
            workers = [pid for pid in host.descendants(init) if is_init(pid)]
            if workers:
                guest = next((pid for worker in workers for pid in _children(worker) if _is_busy(pid)), None)
                guest = guest or next((pid for worker in workers for pid in _children(worker)), None)
                worker = parent(guest) if guest else workers[0]
                found = {
                    "spawner of the zygote": spawner, "init of the zygote": init, "zygote": parent(workers[0]),
                    "worker": worker, "warm guest": guest,
                }  # fmt: skip
            if found.get(role) is not None:
                return found[role]
    return None


def wait_for(role: str, seconds: float = 5.0) -> int:
    """Wait for a process with this role, and return its pid."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid = find(role)
        if pid is not None:
            return pid
        time.sleep(0.002)
    raise LookupError(f"there is no {role}")


def children(*pids: int) -> set[int]:
    """Return the children of processes."""
    return {child for pid in pids for child in _children(pid)}


def kill(pid: int) -> None:
    """Kill a process."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def stop(pid: int) -> None:
    """Stop a process for good."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)


def stop_and_continue(pid: int) -> None:
    """Stop a process for a moment."""
    with suppress(ProcessLookupError):  # the process may have ended by itself
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.15)
        os.kill(pid, signal.SIGCONT)


class Freezer:
    """A control group that freezes the processes moved into it: from outside, as an administrator may do."""

    def __init__(self, version: int) -> None:
        top = next(
            Path(each.path)
            for each in cgroups.find()
            if each.version == version and (version == 2 or "freezer" in each.controllers)
        )
        self._switch, self._on, self._off = (
            ("cgroup.freeze", "1", "0") if version == 2 else ("freezer.state", "FROZEN", "THAWED")
        )
        self._folder = top / f"test-{os.getpid()}-{next(_numbers)}"

    def freeze(self, pid: int) -> None:
        """Freeze a process until ``close``."""
        self._folder.mkdir()
        with suppress(ProcessLookupError):
            (self._folder / "cgroup.procs").write_text(str(pid))
        (self._folder / self._switch).write_text(self._on)

    def close(self) -> None:
        """Thaw the process, and remove the group when the process has ended."""
        if self._folder.exists():
            (self._folder / self._switch).write_text(self._off)
            assert host.eventually(lambda: not host.read(self._folder / "cgroup.procs"), 5.0)
            self._folder.rmdir()


def cut(pid: int, how: int = socket.SHUT_WR) -> None:
    """Shut down every Unix stream socket of ``pid``: it can send nothing, and the peer of each socket reads an end."""
    for sock in _sockets(pid):
        try:
            sock.shutdown(how)
        except OSError:
            pass  # a listening socket, or one whose peer is gone
        finally:
            sock.close()


WAYS: dict[str, Callable[[int], None]] = {
    "kill": kill, "stop": stop, "stop and continue": stop_and_continue, "cut its sockets": cut
}  # fmt: skip
FREEZE = "freeze"


def _sockets(pid: int) -> list[socket.socket]:
    found: list[socket.socket] = []
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return found
    try:
        for number, name in host.descriptors(pid).items():
            if name.startswith("socket:"):
                fd = ctypes.CDLL(None).syscall(_PIDFD_GETFD, pidfd, int(number), 0)
                if fd >= 0:
                    found.append(socket.socket(fileno=fd))
    finally:
        os.close(pidfd)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, host.read(task / "children").split())
    except OSError:
        pass
    return [child for child in found if host.state(child) not in {"", "Z", "X"}]


def parent(pid: int) -> int | None:
    """Return the pid of a process's parent."""
    fields = host.read(f"/proc/{pid}/stat").rpartition(") ")[2].split()
    return int(fields[1]) if fields else None  # the process has ended meanwhile


def _is_busy(pid: int) -> bool:
    """Return whether a guest has its job. Until then, it holds the socket for the job."""
    return not _holds_socket(pid)


def _holds_socket(pid: int) -> bool:
    return any(name.startswith("socket:") for name in host.descriptors(pid).values())


def is_init(pid: int) -> bool:
    """Return whether a process is PID 1 of a PID namespace below ours."""
    line = next((line for line in host.read(f"/proc/{pid}/status").splitlines() if line.startswith("NSpid:")), "")
    numbers = line.split()[1:]
    return len(numbers) > 1 and numbers[-1] == "1"


def _holds_workspace(pid: int) -> bool:
    return any(name.startswith("/workspace") for name in host.descriptors(pid).values())
