"""Copies an idle interpreter by ``fork``. Loaded into the namespace of ``python_cells.py``, whose process it shares.

Python 3.8 or newer, standard library only.
"""

from __future__ import annotations

import _thread
import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stockade.languages.agents.python_cells import Cells, describe

_DESCRIPTORS = 5
_RANDOM = ("random", "numpy.random")
"""Modules whose ``seed()`` takes fresh randomness from the kernel."""


def fork(cells: Cells) -> None:
    """Copy this process. The copy goes on as an interpreter of its own, and this one tells the agent its number."""
    theirs: list[int] = []
    try:
        theirs = received(cells.reading)
        answer = obstacle(cells)
        if not answer:
            cells.flush()
            pid = copy()
            answer = str(pid) if pid else ""
    except OSError as error:
        answer = f"the sandbox refused it: {error.strerror}"
    except Exception as error:  # the guest may have replaced anything
        answer = describe(error)
    if not answer:
        try:
            become_copy(cells, theirs)
        except BaseException:
            os._exit(1)
        return
    for fd in theirs:
        os.close(fd)
    cells.write(b"f", answer.encode("utf-8", "replace"))


def received(fd: int) -> list[int]:
    """Return the descriptors that the agent sends; see ``connect`` of ``session_interpreter.py``."""
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)
    try:
        _, ancillary, _, _ = connection.recvmsg(1, _socket.CMSG_SPACE(4 * _DESCRIPTORS))
    finally:
        connection.detach()
    data = b"".join(part for _, _, part in ancillary)
    found = [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data), 4)]
    if len(found) < _DESCRIPTORS:
        for each in found:
            os.close(each)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return found


def obstacle(cells: Cells) -> str:
    """Return why a copy would lose something, or an empty text."""
    others = set(sys._current_frames()) - {cells.thread}
    if others:
        threading: Any = sys.modules.get("threading")
        names = {each.ident: each.name for each in threading.enumerate()} if threading else {}
        listed = ", ".join(sorted(str(names.get(ident, "a thread without a name")) for ident in others))
        return "a copy would lose other threads, which run in the interpreter: " + listed
    if cells.loop is not None and not cells.loop.is_closed():
        import asyncio

        tasks = sorted(task.get_name() for task in asyncio.all_tasks(cells.loop))
        if tasks:
            return "a copy would lose tasks of asyncio, which wait in the interpreter: " + ", ".join(tasks)
    return ""


def copy() -> int:
    """Fork twice, so that the agent adopts the copy; return its number, and 0 in the copy."""
    reading, writing = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            pid = -1
            try:
                pid = os.fork()
                if pid:
                    os.write(writing, str(pid).encode())
            finally:
                if pid:  # whatever happened, this process has no other use
                    os._exit(0)
            return 0
        os.close(writing)
        writing = -1
        answer = os.read(reading, 20)
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            pass  # the guest ignores SIGCHLD
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
    if not answer:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return int(answer)


def become_copy(cells: Cells, theirs: list[int]) -> None:
    """Go on as an interpreter of its own: with other descriptors, process group, event loop and randomness."""
    stdout, stderr, writing, reading, functions = theirs
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.dup2(writing, cells.writing, inheritable=False)
    os.dup2(reading, cells.reading, inheritable=False)
    if cells.functions is not None:
        cells.functions.listen_at(functions)
    for fd in theirs:
        os.close(fd)
    os.setsid()
    cells.pid, cells.thread, cells.lock = os.getpid(), _thread.get_ident(), _thread.allocate_lock()
    if cells.loop is not None:
        import asyncio

        cells.old_loops.append(cells.loop)  # both processes share its epoll descriptor, so it must not be closed here
        cells.loop = None
        asyncio.set_event_loop(None)
    for name in _RANDOM:
        try:
            sys.modules[name].seed()
        except (KeyError, AttributeError):
            continue  # the guest has not imported it, or has replaced it
    cells.greet()
