"""Callers and wardens that die, fork, run out of descriptors or cancel in the middle of runs."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support import host

import stockade
from stockade.client import warden_process

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]
SLEEP = "import time; time.sleep(30)"
MANY = stockade.Policy(limits={"wall_time": 60})


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that a second after each test nothing is left of it."""
    with host.as_before():
        yield


@pytest.fixture
def caller() -> Iterator[subprocess.Popen[str]]:
    """Start another process with four runs on threads; the process stays when they end."""
    script = f"""
        import threading, time, stockade
        stockade.plan()
        for _ in range(4):
            threading.Thread(target=stockade.run, args=({SLEEP!r},)).start()
        print("ready", flush=True)
        time.sleep(60)
    """
    process = start(script)
    try:
        assert host.eventually(lambda: len(host.guests(process.pid)) == 4, 10)
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def start(script: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def in_threads(count: int) -> tuple[list[stockade.Result], list[threading.Thread]]:
    results: list[stockade.Result] = []
    threads = [threading.Thread(target=lambda: results.append(stockade.run(SLEEP))) for _ in range(count)]
    for thread in threads:
        thread.start()
    return results, threads


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if host.state(pid) not in {"", "Z", "X"}]


def test_killed_caller_leaves_nothing(caller: subprocess.Popen[str]) -> None:
    tree = host.descendants(caller.pid)
    assert len(tree) >= 9  # its warden, and an init and a guest for each run
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    assert host.eventually(lambda: not alive(tree), 1), [host.name(pid) for pid in alive(tree)]


def test_killed_warden_fails_run_and_next_works() -> None:
    results, threads = in_threads(4)
    assert host.eventually(lambda: len(host.guests(os.getpid())) == 4, 10)
    tree = host.descendants()
    os.kill(warden_process.current().pid, signal.SIGKILL)
    assert host.eventually(lambda: not alive(tree), 1), [host.name(pid) for pid in alive(tree)]
    for thread in threads:
        thread.join(5)
    assert [result.outcome for result in results] == [stockade.Outcome.SANDBOX_FAILED] * 4
    assert all(result.exit_code is None and result.signal is None for result in results)
    assert stockade.run("print(1)").stdout == "1\n"


def test_idle_helpers_killed_lose_no_run() -> None:
    """The host's out-of-memory killer may do this. No run is lost, and none waits for a killed helper."""
    threads = [threading.Thread(target=stockade.run, args=("1",), kwargs={"warm": False}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    warden = warden_process.current().pid
    waiting = [int(pid) for pid in host.read(f"/proc/{warden}/task/{warden}/children").split()]
    assert waiting
    for pid in waiting:
        os.kill(pid, signal.SIGKILL)
    assert host.eventually(lambda: not alive(waiting), 5)
    time.sleep(0.2)  # until the warden has seen it
    for _ in range(6):
        assert stockade.run("1", warm=False, policy=MANY).ok
    assert warden_process.current().pid == warden


@pytest.mark.needs("cgroup-memory")
def test_groups_of_killed_warden_are_reclaimed(caller: subprocess.Popen[str]) -> None:
    before = host.abandoned_groups()
    warden = next(
        pid for pid in host.descendants(caller.pid) if "/warden/__main__.py" in host.read(f"/proc/{pid}/cmdline")
    )
    os.kill(warden, signal.SIGKILL)
    # All of them, inits included: a group with a process in it cannot be removed.
    assert host.eventually(lambda: host.descendants() == [caller.pid], 10), list(map(host.name, host.descendants()))
    left = host.abandoned_groups() - before
    assert left
    assert stockade.run("print(1)").ok
    assert not left & host.abandoned_groups()


def test_caller_and_warden_killed_leave_nothing(caller: subprocess.Popen[str]) -> None:
    tree = host.descendants(caller.pid)
    for pid in (caller.pid, tree[0]):
        os.kill(pid, signal.SIGKILL)
    caller.wait()
    assert host.eventually(lambda: not alive(tree), 1), [host.name(pid) for pid in alive(tree)]
    assert stockade.run("print(1)").ok  # takes what they left behind


def test_child_holding_sockets_does_not_keep_runs() -> None:
    script = f"""
        import os, threading, time, stockade
        stockade.plan()
        threading.Thread(target=stockade.run, args=({SLEEP!r},)).start()
        time.sleep(0.8)
        if os.fork() == 0:
            for fd in (0, 1, 2):
                os.close(fd)
            time.sleep(20)  # every descriptor of the parent's is open here
            os._exit(0)
        print("ready", flush=True)
        time.sleep(20)
    """
    process = start(script)
    sandboxed = host.guests(process.pid)
    tree = host.descendants(process.pid)
    assert sandboxed
    process.kill()
    process.wait()
    try:
        assert host.eventually(lambda: not alive(sandboxed), 1)
        keeper = alive(tree)
        assert host.eventually(lambda: len(alive(tree)) == 1, 1), [host.read(f"/proc/{p}/cmdline") for p in keeper]
    finally:
        for pid in alive(tree):
            os.kill(pid, signal.SIGKILL)
        assert process.stdout is not None
        process.stdout.close()


def test_forked_child_gets_own_warden() -> None:
    mine = warden_process.current().pid
    assert stockade.run("print(1)").ok
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        result = stockade.run("print(2)")
        os.write(write, f"{result.stdout.strip()} {warden_process.current().pid}".encode())
        warden_process.current().stop()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as answer:
        said, theirs = answer.read().split()
    os.waitpid(child, 0)
    assert said == "2"
    assert int(theirs) != mine
    assert warden_process.current().pid == mine
    assert stockade.run("print(3)").stdout == "3\n"  # the parent's is untouched


def test_fork_during_run_does_not_disturb_it() -> None:
    policy = stockade.Policy(limits={"wall_time": 1})
    results: list[stockade.Result] = []
    thread = threading.Thread(target=lambda: results.append(stockade.run(SLEEP, policy=policy)))
    thread.start()
    time.sleep(0.3)
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0)
        children.append(child)
    thread.join()
    for child in children:
        os.waitpid(child, 0)
    assert results[0].limit == "wall_time"


def test_threads_run_side_by_side() -> None:
    results: list[str] = []

    def work(number: int) -> None:
        for turn in range(5):
            results.append(stockade.run(f"print({number}, {turn})").stdout)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(f"{number} {turn}\n" for number in range(8) for turn in range(5))


def test_cancelled_task_ends_its_run() -> None:
    async def cancel() -> None:
        task = asyncio.create_task(stockade.AsyncRunner().run(SLEEP))
        while not host.guests(os.getpid()):
            await asyncio.sleep(0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        while host.guests(os.getpid()):
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(cancel(), 5))
    assert stockade.run("print(1)").ok


def test_interrupted_caller_ends_its_run() -> None:
    def interrupt() -> None:
        while not host.guests(os.getpid()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        stockade.run(SLEEP)
    thread.join()
    assert host.eventually(lambda: not host.guests(os.getpid()), 1)


@pytest.mark.parametrize("spare", [0, 1, 2, 3, 5, 8])
def test_caller_without_descriptors_gets_clear_error(spare: int) -> None:
    """Each call gives a clear error of ours or works, and the next run works."""
    assert stockade.run("print(1)").ok
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        with suppress(OSError):
            while True:
                held.append(os.dup(0))
        for _ in range(spare):
            os.close(held.pop())
        try:
            result = stockade.run("print(1)")
            assert result.outcome in {"completed", "sandbox_failed"}, result
        except stockade.SetupError as error:
            assert "descriptor" in str(error) or "open files" in str(error), error
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert stockade.run("print(1)").ok


@pytest.mark.parametrize("limit", [12, 20, 30, 45])
def test_warden_without_descriptors_fails_as_sandbox(limit: int) -> None:
    """The warden inherits the limit; every result is a right verdict or `sandbox_failed`."""
    script = f"""
        import resource, threading, stockade
        resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))
        print("ready", flush=True)
        said = []
        def work():
            try:
                said.append(stockade.run("print(1)").outcome.value)
            except stockade.StockadeError as error:
                said.append(type(error).__name__)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(*sorted(said), flush=True)
    """
    process = start(script)
    assert process.stdout is not None
    said = process.communicate(timeout=60)[0].split()
    assert stockade.run("print(1)").ok  # a warden that could not clean up leaves empty groups: reclaimed here
    assert len(said) == 4
    assert set(said) <= {"completed", "sandbox_failed", "SetupError", "PlanError", "BackendUnavailable"}, said


def test_step_failing_half_way_leaves_nothing(tmp_path: Path) -> None:
    """The folder exists when the policy is checked, and is gone when it would be mounted."""
    folder = tmp_path / "gone"
    folder.mkdir()
    policy = stockade.Policy(filesystem={"read": [str(folder)]})
    box = stockade.Runner(policy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stockade.backends.native.backend.check_paths", lambda *_: None)
        folder.rmdir()
        result = box.run("print(1)")
    assert result.outcome is stockade.Outcome.SANDBOX_FAILED
    assert result.error is not None and "gone" in result.error.message
    assert result.exit_code is None
    with pytest.raises(stockade.StockadeError):
        box.run("print(1)")
    folder.mkdir()
    assert box.run("print(1)").ok


def test_stopped_guest_and_init_die_with_caller(caller: subprocess.Popen[str]) -> None:
    tree = host.descendants(caller.pid)
    inits = [int(host.read(f"/proc/{pid}/stat").rpartition(") ")[2].split()[1]) for pid in host.guests(caller.pid)]
    for pid in [*host.guests(caller.pid), *inits]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    caller.kill()
    caller.wait()
    assert host.eventually(lambda: not alive(tree), 1), [host.name(pid) for pid in alive(tree)]
