"""A helper that fails each time it starts costs each run a bounded time, and the result has the reason."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support import faults, host

import stockade
from stockade import Outcome

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]

_WALL = 1.0
_POLICY = stockade.Policy(limits={"wall_time": _WALL})
_BOUND = _WALL + 2.0
_BROKEN = """#!/bin/bash
if [ -n "$LD_BIND_NOW" ]; then echo "no warm start today" >&2; exit 3; fi
exec -a "$0" /usr/bin/python3 "$@"
"""
"""An interpreter that exits at once where it starts as a zygote, which has this variable."""


@pytest.fixture(autouse=True)
def own_warden() -> Iterator[None]:
    """Give each test a warden of its own, and check that nothing is left of it."""
    with host.as_before():
        yield


@pytest.fixture
def broken_interpreter() -> Iterator[str]:
    """Yield a virtual environment whose interpreter cannot become a zygote."""
    with tempfile.TemporaryDirectory(prefix="stockade-test-", dir="/var/tmp") as name:  # guests have their own /tmp
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
        (folder / "bin").mkdir()
        program = folder / "bin" / "python"
        program.write_text(_BROKEN)
        program.chmod(0o755)
        yield name


@contextmanager
def killed_when_seen(find: Callable[[], list[int]]) -> Iterator[list[int]]:
    """Kill each process that ``find`` returns, as soon as there is one; yield the list of those."""
    over, killed = threading.Event(), []

    def kill() -> None:
        while not over.wait(0.002):
            for pid in find():
                faults.kill(pid)
                killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def timed(run: Callable[[], stockade.Result]) -> stockade.Result:
    """Return the result of ``run``, which must come in time."""
    begin = time.monotonic()
    result = run()
    assert time.monotonic() - begin < _BOUND, result.summary()
    return result


def zygotes() -> list[int]:
    return [pid for pid in host.descendants() if is_interpreter(pid) and not is_interpreter(faults.parent(pid) or 0)]


def workers() -> list[int]:
    return [pid for pid in host.descendants() if is_interpreter(pid) and faults.is_init(pid)]


def is_interpreter(pid: int) -> bool:
    return "/job/.agent/agent.py" in host.read(f"/proc/{pid}/cmdline")


def spawners() -> list[int]:
    return [pid for pid in host.descendants() if faults.parent(pid) == faults.warden()]


def test_zygote_exiting_at_start_is_given_up(broken_interpreter: str) -> None:
    box = stockade.Runner(_POLICY, backend="native", warm=True)
    results = [timed(lambda: box.run("1", interpreter=broken_interpreter)) for _ in range(5)]
    assert {result.outcome for result in results} == {Outcome.SANDBOX_FAILED}
    reasons = [result.error.message for result in results]
    assert all("no warm start today" in reason for reason in reasons), reasons
    assert not any("in a row" in reason for reason in reasons[:3]) and "3 times in a row" in reasons[3], reasons


def test_zygote_exiting_at_start_leaves_runs_cold(broken_interpreter: str) -> None:
    box = stockade.Runner(_POLICY, backend="native")
    results = [timed(lambda: box.run("1", interpreter=broken_interpreter)) for _ in range(6)]
    assert [(result.outcome, result.shared) for result in results] == [(Outcome.COMPLETED, "")] * 6


def test_zygote_killed_when_seen_is_given_up() -> None:
    box = stockade.Runner(_POLICY, backend="native", warm=True)
    with killed_when_seen(zygotes) as killed:
        results = [timed(lambda: box.run("import time; time.sleep(0.5)")) for _ in range(6)]
    assert {result.outcome for result in results} == {Outcome.SANDBOX_FAILED}, [each.summary() for each in results]
    assert killed and any("3 times in a row" in result.error.message for result in results)


def test_worker_killed_when_seen_fails_insisting_runs() -> None:
    box = stockade.Runner(_POLICY, backend="native", warm=True)
    with killed_when_seen(workers) as killed:
        results = [timed(lambda: box.run("import time; time.sleep(0.5)")) for _ in range(4)]
    assert {result.outcome for result in results} == {Outcome.SANDBOX_FAILED}, [each.summary() for each in results]
    assert killed


def test_spawner_killed_when_seen_fails_runs() -> None:
    box = stockade.Runner(_POLICY, backend="native", warm=False)
    assert box.run("1").ok
    with killed_when_seen(spawners) as killed:
        results = [timed(lambda: box.run("import time; time.sleep(0.5)")) for _ in range(3)]
    assert {result.outcome for result in results} == {Outcome.SANDBOX_FAILED}
    assert killed and all("is lost" in result.error.message for result in results), [r.summary() for r in results]
    assert timed(lambda: box.run("1")).ok
