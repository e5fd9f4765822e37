"""Guests that do nothing: the warden leaves them alone, and still notices when they begin to run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import stockade
from stockade import Sandbox
from stockade.client import warden_process

pytestmark = pytest.mark.needs("cgroup-cpuacct")

LOCK = (
    "import fcntl, time\n"
    "time.sleep(2.6)\n"
    "files = [open(f'{number}', 'w') for number in range(10)]\n"
    "for file in files:\n"
    "    for at in range(2000, 0, -1): fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * at)\n"
    "time.sleep(6)"
)


def reads() -> int:
    """Return how many reads of files the warden has made."""
    fields = dict(
        line.split(": ") for line in Path(f"/proc/{warden_process.current().pid}/io").read_text().splitlines()
    )
    return int(fields["syscr"])


def test_warden_does_not_look_at_idle_sandboxes() -> None:
    with Sandbox.create() as one, Sandbox.create() as other, one.interpreter() as python:
        assert python.run("1 + 1").value_repr == "2"
        other.run_command(["true"]).check()
        deadline, made = time.monotonic() + 20, 1000
        while made > 60 and time.monotonic() < deadline:  # twenty looks at all groups together, and few others
            before = reads()
            time.sleep(2)
            made = reads() - before
        assert made <= 60


def test_guest_that_begins_to_run_is_held_to_its_limits() -> None:
    """No group counts locks, so only a look finds them."""
    result = stockade.run(LOCK, timeout=60)
    assert (result.outcome.value, result.limit) == ("limit_exceeded", "memory")
