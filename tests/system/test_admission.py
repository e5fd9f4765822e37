"""Runs beyond the room of the host wait, in order and fairly, and do not fail."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support import host

import stockade

pytestmark = pytest.mark.timing

_FEW_DESCRIPTORS = 300
CROWD = """
import asyncio, stockade
async def main():
    async with stockade.AsyncRunner(backend="native") as box:
        runs = [box.run_command(["sleep", "0.05"]) for _ in range(100)]
        return {(str(result.outcome), result.error and result.error.message) for result in await asyncio.gather(*runs)}
print(*asyncio.run(main()))
"""
INSISTING = """
import asyncio, stockade
async def main():
    async with stockade.AsyncRunner(backend="native", warm=True) as box:
        runs = [box.run(str(number)) for number in range(30)]
        return {str(result.outcome) for result in await asyncio.gather(*runs)}
print(*asyncio.run(main()))
"""
CALLED_OFF = """
import time, stockade
from concurrent.futures import ThreadPoolExecutor
box = stockade.Runner(backend="native")
with ThreadPoolExecutor(40) as pool:
    runs = [pool.submit(box.run_command, ["sleep", "0.3"]) for _ in range(40)]
    time.sleep(0.1)
    with box.stream_command(["true"]) as run:
        run.cancel()
        list(run)
    print(run.result.outcome, sum(each.done() for each in runs) < 20)
"""


def under_few_descriptors(program: str, most: int = _FEW_DESCRIPTORS) -> str:
    shell = f'ulimit -n {most} && exec "$0" -c "$1"'
    done = subprocess.run(
        ["/bin/sh", "-c", shell, sys.executable, program], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.needs("native")
def test_runs_with_few_descriptors_wait() -> None:
    assert under_few_descriptors(CROWD) == "('completed', None)\n"


@pytest.mark.needs("native")
def test_crowd_of_one_caller_leaves_others_their_turn() -> None:
    crowd = 60 * len(os.sched_getaffinity(0))

    async def main() -> tuple[float, float]:
        async with stockade.AsyncRunner(backend="native") as many, stockade.AsyncRunner(backend="native") as one:
            assert (await one.run_command(["true"])).ok
            begin = time.monotonic()
            runs = [asyncio.create_task(many.run_command(["sleep", "0.1"])) for _ in range(crowd)]
            await asyncio.sleep(0.01)
            assert (await one.run_command(["true"])).ok
            served = time.monotonic() - begin
            assert all(result.ok for result in await asyncio.gather(*runs))
            return served, time.monotonic() - begin

    served, whole = asyncio.run(main())
    assert served < whole / 2, (served, whole)


@pytest.mark.needs("native")
def test_waiting_runs_are_logged_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="stockade")
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda _: stockade.run_command(["sleep", "0.1"], backend="native"), range(32)))
    assert any(re.fullmatch(r"run \d+ waits: the host is short of \w+.*", each) for each in caplog.messages)
    assert sum(": completed after " in each for each in caplog.messages) == 32


def test_waiting_run_cancelled_ends_at_once() -> None:
    assert under_few_descriptors(CALLED_OFF) == "cancelled True\n"


@pytest.mark.needs("native")
def test_warm_run_with_few_descriptors_gets_admitted() -> None:
    """A run with ``warm=True`` is admitted again when its zygote is ready."""
    assert under_few_descriptors(INSISTING, 150) == "completed\n"


LIMITED = """
import asyncio, sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
import stockade
count = int(sys.argv[1])
def call(box, number):
    return box.run_command(["true"]) if number % 2 else box.run(str(number))
def by_threads():
    box = stockade.Runner(backend="native")
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda number: call(box, number), range(count)))
async def by_tasks():
    async with stockade.AsyncRunner(backend="native") as box:
        return await asyncio.gather(*(call(box, number) for number in range(count)))
results = by_threads() if sys.argv[2] == "threads" else asyncio.run(by_tasks())
print(Counter((str(result.outcome), result.error and result.error.message) for result in results))
"""
WAITS_FOR_ITSELF = """
import stockade
box, streams = stockade.Runner(backend="native"), []
try:
    for _ in range(40):
        streams.append(box.stream("input()", interactive=True))
except stockade.SetupError as error:
    print(len(streams) >= 4, error)
for stream in streams:
    stream.close()
print(box.run("1").outcome)
"""


@pytest.mark.needs("native")
@pytest.mark.parametrize("how", ["threads", "tasks"])
@pytest.mark.parametrize(("limit", "count"), [(64, 40), (256, 100)])
def test_crowd_under_few_descriptors_waits_for_room(limit: int, count: int, how: str) -> None:
    """Every call completes, whether the caller, the warden or a helper lacks the descriptor."""
    script = f'ulimit -n {limit} && exec "$0" -c "$1" {count} {how}'
    before = host.abandoned_groups()
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable, LIMITED], capture_output=True, text=True, timeout=110, check=False
    )
    assert host.eventually(lambda: host.abandoned_groups() <= before, 5)
    assert (done.stdout, done.stderr) == (f"Counter({{('completed', None): {count}}})\n", "")


@pytest.mark.needs("native")
def test_caller_waiting_for_itself_gets_setup_error() -> None:
    said = under_few_descriptors(WAITS_FOR_ITSELF, 64)
    assert "True ask the warden for a run: under a limit of 64 open files 8 runs go on at a time" in said
    assert said.endswith("completed\n")
