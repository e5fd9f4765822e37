"""Count locks on ranges of files. The kernel charges their memory to no account (proc_locks(5), fcntl(2)).

To open the list, the kernel waits until no processor changes a lock (``percpu_down_write``): some ten milliseconds, for
which the reader sleeps. So the list must not be read more often than there can be news in it.
"""

from __future__ import annotations

import os
import time

from stockade.linux import descendants

EACH = 256
"""Bytes of kernel memory for each lock."""
MOST = 16_384
"""Most lines of the list that are read. For every page of the list, the kernel walks it from the start again."""
CPU_SECONDS = MOST * 2e-7
"""Less CPU time than it takes to get ``MOST`` locks."""
_FEW = 1_024
_CHUNK = 1 << 16
_FRESH_SECONDS = 0.05
_last = (float("-inf"), b"")


def held(init: int) -> int:
    """Return how many locks the processes below ``init`` hold, at most ``MOST``. The result is 0 if the whole host has
    few.
    """
    listed = _listed()
    if listed.count(b"\n") < _FEW:
        return 0
    ours = {str(pid).encode() for pid in descendants.below(init)}
    return sum(_owner(line.split()) in ours for line in listed.splitlines())


def _owner(words: list[bytes]) -> bytes:
    """Return the pid in a line such as ``1: POSIX ADVISORY WRITE 5 00:2d:1 0 EOF``; ``->`` marks a lock that waits."""
    at = 5 if words[1:2] == [b"->"] else 4
    return words[at] if len(words) > at else b""


def _listed() -> bytes:
    """Return the first lines of the host's list. Runs that ask within a short time share one reading."""
    global _last
    now = time.monotonic()
    if now - _last[0] > _FRESH_SECONDS:
        _last = (now, _read())
    return _last[1]


def _read() -> bytes:
    found, lines = [], 0
    try:
        fd = os.open("/proc/locks", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        while lines < MOST and (data := os.read(fd, _CHUNK)):
            found.append(data)
            lines += data.count(b"\n")
    except OSError:
        pass
    finally:
        os.close(fd)
    return b"".join(found)
