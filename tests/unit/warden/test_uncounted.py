"""Memory of the kernel that no control group counts: when its tables are read."""

from __future__ import annotations

import os

import pytest

from stockade.core.launch import Watch
from stockade.linux import locks
from stockade.warden.run.uncounted import UncountedMemory


@pytest.fixture
def readings(monkeypatch) -> list[int]:
    """Return the list of readings; each finds one lock more."""
    made: list[int] = []
    monkeypatch.setattr(locks, "held", lambda init: made.append(init) or len(made))
    return made


def held(uncounted: UncountedMemory, cpu: float | None) -> int:
    return uncounted.held(os.getpid(), 0, all_kinds=False, cpu=cpu) // locks.EACH


def test_locks_are_listed_only_after_cpu_time(readings):
    uncounted = UncountedMemory(Watch(own_network=False))
    little, enough = locks.CPU_SECONDS / 2, locks.CPU_SECONDS * 1.01
    assert [held(uncounted, cpu) for cpu in (0.0, little, enough, enough + little, 3 * enough)] == [0, 0, 1, 1, 2]


def test_locks_are_always_listed_without_cpu_time(readings):
    uncounted = UncountedMemory(Watch(own_network=False))
    assert [held(uncounted, None) for _ in range(3)] == [1, 2, 3]
