"""Many runs with mixed outcomes, 16 at a time: no wrong verdict, and nothing left afterwards.

``STOCKADE_SOAK`` sets how many; 2000 is the figure that the documentation names.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support import host

import stockade
from stockade.client import warden_process

RUNS = int(os.environ.get("STOCKADE_SOAK") or "200")
AT_A_TIME = 16
MIB = 1 << 20
KEPT = 4 * (4 + 2 * 2) + 4 * 3 + 2
"""The most processes that an idle warden keeps: for each of four kinds a zygote, its parent and its instance, and two
workers with a guest each; four prewarmed instances; and two free cgroup slots."""
GIVEN_BACK = 15.0

pytestmark = [pytest.mark.needs("native"), pytest.mark.timeout(max(120, RUNS)), pytest.mark.timing]


@dataclass(frozen=True)
class Kind:
    """A program, its policy, and the verdict it must get."""

    name: str
    code: str
    wanted: Callable[[stockade.Result], bool]
    limits: dict[str, Any]
    more: dict[str, Any]


def _kind(name: str, code: str, wanted: Callable[[stockade.Result], bool], *, more: Any = None, **limits: Any) -> Kind:
    return Kind(name, code, wanted, {"wall_time": 60, **limits}, more or {})


def _ended_by(limit: str) -> Callable[[stockade.Result], bool]:
    return lambda result: result.outcome == "limit_exceeded" and result.limit == limit


def _refused(error: str) -> Callable[[stockade.Result], bool]:
    return lambda result: result.outcome == "failed" and result.error is not None and result.error.type == error


def _memory_met(result: stockade.Result) -> bool:
    return _ended_by("memory")(result) or (
        "memory" not in stockade.plan().facts.cgroups and _refused("MemoryError")(result)
    )


OPEN = """
import os
try:
    while True: os.dup(1)
except OSError:
    os.closerange(8, 16)  # the report on it needs some
    raise
"""

KINDS = [
    _kind("completed", "print(6 * 7)", lambda r: r.outcome == "completed" and r.stdout == "42\n"),
    _kind("value", "[1, 2]", lambda r: r.outcome == "completed" and r.value == [1, 2]),
    _kind("failed", "import sys; sys.exit(3)", lambda r: r.outcome == "failed" and r.exit_code == 3),
    _kind("raised", "1 / 0", _refused("ZeroDivisionError")),
    _kind("crashed", "import os; os.kill(os.getpid(), 11)", lambda r: r.outcome == "crashed" and r.signal == 11),
    _kind("killed", "import os; os.kill(os.getpid(), 9)", lambda r: (r.outcome, r.signal) == ("crashed", 9)),
    _kind("wall_time", "import time; time.sleep(60)", _ended_by("wall_time"), wall_time=0.3),
    _kind("cpu_time", "while True: pass", _ended_by("cpu_time"), cpu_time=0.1),
    _kind("memory", f"x = b'x' * {128 * MIB}", _memory_met, memory=64 * MIB),
    _kind("output", "while True: print('x' * 1000)", _ended_by("output"), more={"on_output": "kill"}),
    _kind("file_size", "with open('/tmp/f', 'wb') as f: f.write(b'x' * 8192)", _refused("OSError"), file_size=4096),
    _kind("disk", f"with open('f', 'wb') as f: f.write(b'x' * {2 * MIB})", _refused("OSError"), disk=MIB),
    _kind("open_files", OPEN, _refused("OSError"), open_files=16),
    _kind(
        "processes",
        "import os, time\nwhile True:\n if os.fork() == 0: time.sleep(30)",
        _refused("BlockingIOError"),
        processes=5,
    ),
    _kind(
        "daemon",
        "import os, time\nif os.fork() == 0:\n os.setsid(); time.sleep(30)\nelse: os._exit(0)",
        lambda r: r.outcome == "completed",
    ),
    _kind("stdin", "import sys; print(len(sys.stdin.read()))", lambda r: r.stdout == "100000\n"),
]


async def _one(kind: Kind) -> str:
    policy = stockade.Policy(limits=kind.limits, **kind.more)
    stdin = b"x" * 100_000 if kind.name == "stdin" else None
    result = await stockade.AsyncRunner(policy).run(kind.code, stdin=stdin)
    return "" if kind.wanted(result) else f"{kind.name}: {result.summary()} {result.stderr[-200:]}"


async def _cancelled(_: Kind) -> str:
    task = asyncio.create_task(stockade.AsyncRunner().run("import time; time.sleep(60)"))
    await asyncio.sleep(random.uniform(0, 0.3))
    task.cancel()
    with suppress(asyncio.CancelledError):
        return f"cancelled: {(await task).summary()}"
    return ""


async def _not_found(_: Kind) -> str:
    result = await stockade.AsyncRunner().run_command(["no-such-program"])
    right = (result.outcome, result.exit_code) == ("failed", 127)
    return "" if right else f"not found: {result.summary()}"


async def _all(count: int) -> list[str]:
    order = random.Random(20)
    works: list[tuple[Callable[[Kind], Awaitable[str]], Kind]] = [(_one, kind) for kind in KINDS]
    works += [(_cancelled, KINDS[0]), (_not_found, KINDS[0])]
    queue = [works[number % len(works)] for number in range(count)]
    order.shuffle(queue)
    wrong: list[str] = []

    async def worker() -> None:
        while queue:
            work, kind = queue.pop()
            answer = await work(kind)
            if answer:
                wrong.append(answer)

    await asyncio.gather(*(worker() for _ in range(AT_A_TIME)))
    return wrong


def test_many_runs_get_right_verdicts_and_leave_nothing() -> None:
    host.adopt_orphans()
    host.stop_warden()
    before = host.Snapshot.take()
    assert asyncio.run(_all(3 * AT_A_TIME)) == []  # what is kept for good is there after these
    warden = warden_process.current().pid
    assert host.eventually(lambda: _idle(warden), GIVEN_BACK), _warden_state(warden)
    settled = _warden_state(warden)
    wrong = asyncio.run(_all(RUNS))
    assert not wrong, Counter(wrong).most_common(10)
    assert warden_process.current().pid == warden  # it served them all
    assert host.eventually(lambda: not host.guests(warden), 3), _warden_state(warden)
    busy = _warden_state(warden)
    # What is kept for reuse is as much as was at work at one time, whatever the number of runs,
    assert busy["processes"] <= KEPT + 3 * AT_A_TIME, busy
    assert busy["descriptors"] <= 10 * busy["processes"], busy
    # and soon no more than before.
    assert host.eventually(lambda: _idle(warden), GIVEN_BACK), _warden_state(warden)
    after = _warden_state(warden)
    assert after["descriptors"] <= settled["descriptors"] + 10 * AT_A_TIME, (settled, after)
    host.stop_warden()
    host.eventually(lambda: not host.Snapshot.take().more_than(before), 3)
    assert host.Snapshot.take().more_than(before) == {}


def _idle(warden: int) -> bool:
    """Return whether no guest and only a few processes are left."""
    return not host.guests(warden) and len(host.descendants(warden)) <= KEPT


def _warden_state(warden: int) -> dict[str, int]:
    return {"processes": len(host.descendants(warden)), "descriptors": len(host.descriptors(warden))}
