"""The processes below one, in a tree that none can leave: to find them, to stop them and to end them."""

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

    All are stopped first: a stopped one forks no more and goes on filling its place under a limit, while a killed
    one would make room for another's child. Only children are killed, for theirs become ours, and their pids cannot
    have been given to anybody else.
    """
    if _are_gone_in_a_moment():
        return  # the usual case, without a look at /proc
    while True:
        stop_all(os.getpid())
        for pid in children(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(_AGAIN_SECONDS)  # no longer: the list may have missed one (proc(5), children)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def end_namespace() -> None:
    """Kill and reap until no process is left in this PID namespace but its init, the caller: orphans are its children
    (kill(2), pid_namespaces(7))."""
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass  # none but ourselves; some may wait to be reaped
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def stop_all(root: int, rounds: int = _MOST_ROUNDS) -> set[int]:
    """Stop all below ``root``, until two looks in a row find none that runs, or for so many ``rounds``: one look may
    miss some (proc(5), children). Return the pids that were stopped."""
    calm = 0
    stopped: set[int] = set()
    for _ in range(rounds):
        found = below(root)
        running = [pid for pid in found if _state(pid) not in _AT_REST]
        calm = 0 if running else calm + 1
        if calm == _CALM:
            break
        ours = {root, *found}
        stopped.update(pid for pid in running if _send(pid, ours, signal.SIGSTOP))
    return stopped


def continue_all(root: int, stopped: set[int]) -> None:
    """Let those of the ``stopped`` go on that are still below ``root``."""
    found = below(root)
    for pid in stopped.intersection(found):
        _send(pid, {root, *found}, signal.SIGCONT)


def eldest(root: int, generations: int) -> tuple[int, int] | None:
    """Return pid and pidfd of the first child of the first child of ``root``, and so on; ``None`` if there is none.

    A parent's children are listed in the order in which they became its own, and orphans come last.
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
    if _parent(pid) == parent and not processes.is_dead(pidfd):  # looked up while it lived, so it is no other one
        return pid, pidfd
    os.close(pidfd)
    return None


def below(pid: int) -> list[int]:
    """Return the pids below a process that adopts its orphans: none can leave the tree."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        own = children(waiting.pop())
        found += own
        waiting += own
    return found


def children(pid: int) -> list[int]:
    """Return the children of a process. A child belongs to the thread that made it, so every thread is asked."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, files.read(f"/proc/{pid}/task/{task}/children").split())
    except OSError:
        pass
    return found


def _are_gone_in_a_moment() -> bool:
    """Reap what ends by itself just now, as an engine's PID namespace does: to look for it in /proc takes longer."""
    until = time.monotonic() + _MOMENT_SECONDS
    try:
        while time.monotonic() < until:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                os.sched_yield()
    except ChildProcessError:
        return True
    return False


def is_stopped(pid: int) -> bool:
    """Return whether a stop signal holds the process ``pid``; a process that a debugger holds does not count."""
    return _state(pid) == "T"


def _state(pid: int) -> str:
    return files.read(f"/proc/{pid}/stat").rpartition(") ")[2][:1]


def _parent(pid: int) -> int:
    fields = files.read(f"/proc/{pid}/stat").rpartition(") ")[2].split()
    return int(fields[1]) if len(fields) > 1 else -1


def _send(pid: int, ours: set[int], number: int) -> bool:
    """Signal a process, unless its pid has become that of another one, whose parent is none of ours."""
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
