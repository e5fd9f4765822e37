"""Finds what a test leaves behind on the host, by comparing snapshots before and after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stockade.attacks.outside import (
    CAMPAIGN,
    Snapshot,
    abandoned_groups,
    adopt_orphans,
    descendants,
    descriptors,
    eventually,
    left_behind,
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
    "campaign",
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
def as_before(seconds: float = 2) -> Iterator[None]:
    """Check that the block leaves nothing behind on the host ``seconds`` after its end.

    What other tests of this user make meanwhile counts as well, so a test with this check is marked ``timing`` or ``alone``.
    """
    adopt_orphans()
    stop_warden()
    before = Snapshot.take()
    yield
    stop_warden()
    eventually(lambda: not _left(before), seconds)
    left = _left(before)
    assert not left, left


@contextmanager
def campaign() -> Iterator[None]:
    """Check that the attacks of the block leave no process, no mount, and no folder of their own. Others may run meanwhile."""
    token = os.urandom(4).hex()
    adopt_orphans()
    stop_warden()
    before = Snapshot.take()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CAMPAIGN, token)
        yield
    stop_warden()
    left = left_behind(before, token)
    assert not left, left


def _left(before: Snapshot) -> dict[str, list[str]]:
    """Return the leftovers since ``before``. Orphans are children of this process, so they are reaped first."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    return Snapshot.take().more_than(before)


def guests(pid: int) -> list[int]:
    """Return the processes below ``pid`` that run a Python job.

    A zygote, its workers and waiting guests have the same command line as a job. But zygotes and workers have no filter,
    and a waiting guest holds a descriptor of its job's folder until the job begins.
    """
    return [
        child
        for child in descendants(pid)
        if "/job/" in read(f"/proc/{child}/cmdline") and _is_filtered(child) and not _waits(child)
    ]


def _is_filtered(pid: int) -> bool:
    return "\nSeccomp:\t2\n" in read(f"/proc/{pid}/status")


def _waits(pid: int) -> bool:
    held = descriptors(pid)  # empty for a waiting guest if an ordinary user looks
    return not held or "/job" in held.values()
