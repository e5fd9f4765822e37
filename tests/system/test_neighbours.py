"""The shares of two sandboxes that compete for the same processors.

The tests compare shares, not times, since load from outside slows both sandboxes alike.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import stockade
from stockade import Policy, Runner, UsageReport

pytestmark = [pytest.mark.needs("cgroup-cpu"), pytest.mark.needs("cgroup-cpuacct"), pytest.mark.alone]

CPUS = len(os.sched_getaffinity(0))
POLICY = Policy(limits={"wall_time": 60, "cpu_time": "unlimited"})
SYSTEM_CALLS = "for i in $(seq $CPUS); do dd if=/dev/zero of=/dev/null bs=1 status=none & done; wait"
COMPUTATION = "for i in $(seq $CPUS); do while :; do :; done & done; wait"
WORK = "for i in $(seq $CPUS); do (n=0; while [ $n -lt 800000 ]; do n=$((n + 1)); done) & done; wait"
APART = (
    "import stockade, sys\n"
    "policy = stockade.Policy(limits={'wall_time': 60, 'cpu_time': 'unlimited'})\n"
    "box = stockade.Runner(policy)\n"
    "for event in box.stream_command(['sh', '-c', sys.argv[1]], report_seconds=0.02):\n"
    "    if isinstance(event, stockade.UsageReport): print(event.cpu_seconds, flush=True)\n"
)


def _shell(program: str) -> list[str]:
    return ["sh", "-c", program.replace("$CPUS", str(CPUS))]


class Neighbour:
    """A run in progress, and the CPU time that it has used so far."""

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        self._readings = 0
        self._news = threading.Condition()

    def follow(self, states: Iterator[float]) -> None:
        """Take readings of the CPU time until the run ends."""
        for seconds in states:
            with self._news:
                self.cpu_seconds = seconds
                self._readings += 1
                self._news.notify_all()

    def wait_until(self, seconds: float) -> None:
        """Wait until the run has used that much CPU time."""
        with self._news:
            assert self._news.wait_for(lambda: self.cpu_seconds >= seconds, 30), self.cpu_seconds

    def read(self) -> float:
        """Return the CPU time so far, from a reading that is taken after the call."""
        with self._news:
            last = self._readings
            assert self._news.wait_for(lambda: self._readings >= last + 2, 30), self.cpu_seconds
            return self.cpu_seconds


@contextmanager
def _same_caller(program: str) -> Iterator[Neighbour]:
    run = Runner(POLICY).stream_command(_shell(program), report_seconds=0.02)
    with run, _following(event.cpu_seconds for event in run if isinstance(event, UsageReport)) as neighbour:
        try:
            yield neighbour
        finally:
            run.cancel()


@contextmanager
def _another_caller(program: str) -> Iterator[Neighbour]:
    command = [sys.executable, "-c", APART, _shell(program)[2]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(stockade.__file__).parents[1]) as caller:
        assert caller.stdout is not None
        with _following(map(float, caller.stdout)) as neighbour:
            try:
                yield neighbour
            finally:
                caller.kill()


@contextmanager
def _following(states: Iterator[float]) -> Iterator[Neighbour]:
    neighbour = Neighbour()
    thread = threading.Thread(target=neighbour.follow, args=(states,))
    thread.start()
    try:
        yield neighbour
    finally:
        thread.join()


def _part(neighbour: Neighbour) -> float:
    """Return the neighbour's CPU time while a new run works, as a multiple of the new run's."""
    neighbour.wait_until(1.5)
    before = neighbour.read()
    result = Runner(POLICY).run_command(_shell(WORK)).check()
    part = (neighbour.read() - before) / result.usage.cpu_seconds
    print(f"the neighbour: {part:.2f} of the {result.usage.cpu_seconds:.2f} CPU seconds of the new run")
    return part


def test_system_calls_yield_to_a_new_run():
    with _same_caller(SYSTEM_CALLS) as neighbour:
        assert _part(neighbour) < 0.7


def test_system_calls_yield_to_another_caller():
    with _another_caller(SYSTEM_CALLS) as neighbour:
        assert _part(neighbour) < 0.7


def test_computation_keeps_its_share():
    with _same_caller(COMPUTATION) as neighbour:
        assert _part(neighbour) > 0.5


def test_run_after_system_calls_has_full_share():
    with _same_caller(SYSTEM_CALLS) as neighbour:
        neighbour.wait_until(1.0)
    with _same_caller(COMPUTATION) as neighbour:  # in the control groups of the run before
        assert _part(neighbour) > 0.5


def test_runs_leave_a_part_of_the_processors_to_the_host():
    result = Runner(Policy(limits={"wall_time": 2, "cpu_time": "unlimited"})).run_command(_shell(COMPUTATION))
    assert result.usage.cpu_seconds < 0.965 * CPUS * result.usage.wall_seconds  # the quota is 0.95
