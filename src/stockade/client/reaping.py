"""Zombies of earlier wardens: children of this process, and helpers and guests of a warden that was killed.

The kernel gives an orphan to the first process of its PID namespace, or to a subreaper above it. If the caller is that
process, nobody else reaps the orphan.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stockade.linux import files, libc, uids
from stockade.warden import protocol

_PR_GET_CHILD_SUBREAPER = 37


def reap(current: int | None) -> None:
    """Reap every zombie that was a warden, a helper or a guest of root's, except ``current``. Other processes stay."""
    if not _adopts_orphans():
        return
    for pid in _children():
        if pid != current and _is_zombie_of_ours(pid):
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _adopts_orphans() -> bool:
    if os.getpid() == 1:
        return True
    flag = libc.number()
    with suppress(OSError):
        libc.prctl(_PR_GET_CHILD_SUBREAPER, libc.address(flag))
    return bool(flag.value)


def _children() -> Iterator[int]:
    with suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            yield from map(int, files.read(f"{task}/children").split())


def _is_zombie_of_ours(pid: int) -> bool:
    begin, _, rest = files.read(f"/proc/{pid}/stat").rpartition(") ")
    return rest.startswith("Z ") and (begin.partition(" (")[2] == protocol.PROCESS_NAME or _has_guest_uid(pid))


def _has_guest_uid(pid: int) -> bool:
    """Return whether only a guest can have the uid of a process. An ordinary user's guests have the uid of the user."""
    with suppress(OSError, ValueError):
        return os.geteuid() == 0 and Path(f"/proc/{pid}").stat().st_uid in uids.configured()
    return False
