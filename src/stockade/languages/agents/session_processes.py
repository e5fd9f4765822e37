"""Processes of the session agent: how an interpreter begins, and which processes are its own. See ``session_agent.py``.

Python 3.8 or newer, standard library only.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_REQUESTS, _ANSWERS = 198, 199
"""The descriptors that another program has to the agent."""


def isolate_self() -> None:
    """Keep the guest out of this process, and become the parent of those whose own parent ends."""
    prctl(_PR_SET_DUMPABLE, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def prctl(option: int, value: int) -> None:
    """Call ``prctl``, if this Python has ``ctypes``."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


def become(start: dict[str, Any], theirs: list[int], own: list[int]) -> NoReturn:
    """Turn this child process into the interpreter. ``own`` are the descriptors of the agent."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    prctl(_PR_SET_DUMPABLE, 1)
    for fd in own:
        os.close(fd)
    stdout, stderr, writing, reading, functions = theirs
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    if start.get("folder"):
        os.chdir(start["folder"])
    os.environ.update(start.get("environment", {}))
    if start["kind"] == "python":
        python(start, reading, writing, functions)
    os.dup2(reading, 0 if start["kind"] == "shell" else _REQUESTS, inheritable=True)
    os.dup2(writing, _ANSWERS, inheritable=True)
    os.execv(start["argv"][0], start["argv"])


def python(start: dict[str, Any], reading: int, writing: int, answers: int) -> NoReturn:
    """Run the agent of Python cells in this process, with a fresh ``__main__``."""
    space: dict[str, Any] = {"__name__": "stockade_cells", "__file__": "<stockade>", "__builtins__": __builtins__}
    try:
        for source in start["agent"]:
            exec(compile(source, "<stockade>", "exec", dont_inherit=True), space)
        names = start.get("functions")
        functions = (lambda cells: space["Functions"](cells, answers, names)) if names else id
        space["serve"](reading, writing, start["preload"], functions)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(1)


def below(pid: int, others: set[int]) -> set[int]:
    """Return the processes below an interpreter and those of its session, without ``others`` and what is below them.

    A process that left both is a child of the agent then. It belongs to an interpreter that is the only one.
    """
    parents: dict[int, int] = {}
    sessions: dict[int, int] = {}
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        numbers = []
    for number in numbers:
        try:
            with open(f"/proc/{number}/stat", "rb") as file:
                state, parent, _, leader = file.read().rpartition(b")")[2].split()[:4]
        except OSError:
            continue
        parents[number] = int(parent)
        if state != b"Z":
            sessions[number] = int(leader)
    own = {pid} if others else {pid, os.getpid()}
    belong = set()
    for number, session in sessions.items():
        at = number
        while at in parents and at not in own and at not in others:
            at = parents[at]
        if number != os.getpid() and at not in others and (at in own or session == pid):
            belong.add(number)
    return belong


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its children that ended, or 0 without ``/proc``."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes, or 0 without ``/proc``."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
