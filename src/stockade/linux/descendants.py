"""Find, stop and end the descendants of a process, in a tree that no process can leave."""

from __future__ import annotations

import os
import time

from stockade.linux import files, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_AGAIN_SECONDS = 0.0005
_MOMENT_SECONDS = 0.0005
_MOST_ROUNDS = 100
_CALM = 2
_AT_REST = ("T", "t", "Z", "X", "")


def end_all() -> None:
    """Kill and reap until the caller, which adopts orphans, has no descendant left.

    All are stopped first. A stopped process forks no more, but still counts against a limit on processes; a killed one
    would free its place for another fork. Only children are killed. Their own children then become ours, and a pid of
    our child cannot be reused before we reap it.
    """
    if _are_gone_in_a_moment():
        return  # the usual case, without reading /proc
    while True:
        stop_all(os.getpid())
        for pid in children(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(_AGAIN_SECONDS)  # a short time: the list may have missed one (proc(5), children)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def end_namespace() -> None:
    """Kill and reap until this PID namespace holds only its init, which is the caller and adopts all orphans.

    See kill(2) and pid_namespaces(7).
    """
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass  # only this process is left; dead ones may wait to be reaped
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def stop_all(root: int, rounds: int = _MOST_ROUNDS) -> set[int]:
    """Stop all processes below ``root``; return the pids that were stopped.

    The function ends when two searches in a row find no running process, or after ``rounds``. One search may miss some
    (proc(5), children).
    """
    calm = 0
    stopped: set[int] = set()
    for _ in range(rounds):
        found = below(root)
        running = [pid for pid in found if state(pid) not in _AT_REST]
        calm = 0 if running else calm + 1
        if calm == _CALM:
            break
        ours = {root, *found}
        stopped.update(pid for pid in running if _send(pid, ours, signal.SIGSTOP))
    return stopped


def continue_all(root: int, stopped: set[int]) -> None:
    """Continue those of the ``stopped`` processes that are still below ``root``."""
    found = below(root)
    for pid in stopped.intersection(found):
        _send(pid, {root, *found}, signal.SIGCONT)


def eldest(root: int, generations: int) -> tuple[int, int] | None:
    """Return pid and pidfd of the first child of the first child of ``root``, and so on, or ``None``.

    The kernel lists children in the order in which the parent got them, so orphans come last.
    """
    pid, parent = root, 0
    for _ in range(generations):
        parent, found = pid, children(pid)
        if not found:
            return None
        pid = found[0]
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    if _parent(pid) == parent and not processes.is_dead(pidfd):  # alive after the look-up: not reused
        return pid, pidfd
    os.close(pidfd)
    return None


def below(pid: int) -> list[int]:
    """Return the pids below a process that adopts its orphans, so that none can leave the tree."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        own = children(waiting.pop())
        found += own
        waiting += own
    return found


def is_below(pid: int, root: int) -> bool:
    """Return whether ``root`` is an ancestor of the process ``pid``."""
    parent = _parent(pid)
    while parent > 1 and parent != root:
        parent = _parent(parent)
    return parent == root


def children(pid: int) -> list[int]:
    """Return the children of a process. A child belongs to the thread that made it, so every thread is read."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, files.read(f"/proc/{pid}/task/{task}/children").split())
    except OSError:
        pass
    return found


def _are_gone_in_a_moment() -> bool:
    """Reap children that end by themselves just now, as an engine's PID namespace does: reading /proc takes longer."""
    until = time.monotonic() + _MOMENT_SECONDS
    try:
        while time.monotonic() < until:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                os.sched_yield()
    except ChildProcessError:
        return True
    return False


def kill_below(root: int) -> None:
    """Kill all processes below ``root``, parents first."""
    found = below(root)
    for pid in found:
        _send(pid, {root, *found}, signal.SIGKILL)


def state(pid: int) -> str:
    """Return the letter of a process's state (proc(5), ``/proc/PID/stat``), or an empty text if the process is gone."""
    return files.read(f"/proc/{pid}/stat").rpartition(") ")[2][:1]


def _parent(pid: int) -> int:
    fields = files.read(f"/proc/{pid}/stat").rpartition(") ")[2].split()
    return int(fields[1]) if len(fields) > 1 else -1


def _send(pid: int, ours: set[int], number: int) -> bool:
    """Signal a process, unless its pid now belongs to another process, with a parent outside ``ours``."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if _parent(pid) not in ours:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        return False  # it has ended
    finally:
        os.close(pidfd)
    return True
