"""What a test leaves behind on the host: looked at before and after, and compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from stockade.attacks.outside import (
    Snapshot,
    abandoned_groups,
    adopt_orphans,
    descendants,
    descriptors,
    eventually,
    name,
    named,
    read,
    state,
    stop_warden,
)

__all__ = [
    "Snapshot",
    "abandoned_groups",
    "adopt_orphans",
    "as_before",
    "descendants",
    "descriptors",
    "eventually",
    "guests",
    "name",
    "named",
    "read",
    "state",
    "stop_warden",
]


@contextmanager
def as_before() -> Iterator[None]:
    """Whatever is done meanwhile, two seconds after it nothing of it is left on the host."""
    adopt_orphans()
    stop_warden()
    before = Snapshot.take()
    yield
    stop_warden()
    eventually(lambda: not _left(before), 2)
    left = _left(before)
    assert not left, left


def _left(before: Snapshot) -> dict[str, list[str]]:
    """Return what is there and was not before; orphans came to us, and are reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    return Snapshot.take().more_than(before)


def guests(pid: int) -> list[int]:
    """Return the processes below ``pid`` that run a program of Python: not a warm interpreter and its copies, which have
    the same command line. The former has no filter; a copy holds the folder of its job until it begins."""
    return [
        child
        for child in descendants(pid)
        if "/job/" in read(f"/proc/{child}/cmdline") and _is_filtered(child) and not _waits(child)
    ]


def _is_filtered(pid: int) -> bool:
    return "\nSeccomp:\t2\n" in read(f"/proc/{pid}/status")


def _waits(pid: int) -> bool:
    held = descriptors(pid)  # none can be seen of a copy that waits by an ordinary user
    return not held or "/job" in held.values()
