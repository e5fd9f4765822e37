"""A paused sandbox: every process stands still, every clock too, and it can still be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from tests.support import host

import stockade
from stockade import Outcome, Sandbox
from stockade.client import warden_process

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]
TICKS = "import time\nwhile True:\n    print('tick', flush=True); time.sleep(0.02)"
MARK = "86395.25"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that a second after each test nothing is left of it."""
    with host.as_before():
        yield


def in_background(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    return thread, found


def test_everything_stands_still_and_no_clock_runs() -> None:
    """Without the pause, each of these would end for its time: idle, lifetime, process, call, cell."""
    with Sandbox.create(idle_timeout=3, max_lifetime=8, timeout=4) as sandbox:
        ticks = sandbox.start_command(["python3", "-c", TICKS], timeout=7)
        python = sandbox.interpreter()
        command, results = in_background(lambda: sandbox.run_command(["sleep", "2"]))
        cell, cells = in_background(lambda: python.run("import time; time.sleep(2); 'done'", timeout=4))
        assert ticks.stdout.readline(timeout=10) == b"tick\n"
        time.sleep(0.5)
        sandbox.pause()
        sandbox.pause()
        assert sandbox.paused
        _drain(ticks)
        time.sleep(8)
        with pytest.raises(TimeoutError):
            ticks.stdout.read(1, timeout=0.3)
        sandbox.resume()
        assert ticks.stdout.readline(timeout=10)
        command.join()
        cell.join()
        assert results[0].outcome is Outcome.COMPLETED  # type: ignore[attr-defined]
        assert cells[0].value_repr == "'done'"  # type: ignore[attr-defined]
        sandbox.run_command(["true"]).check()


def _drain(process: stockade.Process) -> None:
    """Read what the process wrote before the pause."""
    try:
        while True:
            process.stdout.read(1 << 16, timeout=0.5)
    except TimeoutError:
        pass


def test_paused_sandbox_refuses_calls_and_can_be_closed() -> None:
    with Sandbox.create() as sandbox:
        process = sandbox.start_command(["sleep", MARK])
        sandbox.pause()
        for call in (lambda: sandbox.run_command(["true"]), lambda: sandbox.connect(80), sandbox.interpreter):
            with pytest.raises(stockade.JobError, match=r"the sandbox is paused: call resume\(\) first"):
                call()
        sandbox.usage()
        sandbox.resume()
        sandbox.resume()
        assert process.poll() is None
        sandbox.pause()
        begin = time.monotonic()
    assert time.monotonic() - begin < 5
    assert process.returncode is not None


def test_limits_hold_again_after_a_pause() -> None:
    with Sandbox.create(idle_timeout=1.5) as sandbox:
        sandbox.pause()
        time.sleep(2.5)
        sandbox.resume()
        time.sleep(0.5)
        late = sandbox.run_command(["sleep", "5"], timeout=0.5)
        assert late.limit == "wall_time"
        time.sleep(3)
        with pytest.raises(stockade.SandboxClosed, match="idle_timeout"):
            sandbox.run_command(["true"])


def test_fork_bomb_is_paused_and_ended() -> None:
    with Sandbox.create(processes=40, timeout=20) as sandbox:
        bomb = sandbox.start_command(["sh", "-c", "while :; do (sleep 0.01 &); done 2>/dev/null"])
        time.sleep(0.3)
        sandbox.pause()
        sandbox.resume()
        bomb.kill()


@pytest.mark.parametrize("victim", ["warden", "init"])
def test_paused_sandbox_leaves_nothing_behind(victim: str) -> None:
    with Sandbox.create() as sandbox:
        process = sandbox.start_command(["sleep", MARK])
        assert host.eventually(lambda: bool(_sleeping()), 10)
        init = int(host.read(f"/proc/{_sleeping()[0]}/stat").rpartition(") ")[2].split()[1])
        sandbox.pause()
        os.kill(warden_process.current().pid if victim == "warden" else init, signal.SIGKILL)
        process.wait(10)
        assert host.eventually(lambda: not _sleeping(), 10)
    assert stockade.run("1").ok  # its warden removes the groups of a dead one, freezers too


def _sleeping() -> list[int]:
    return [pid for pid in host.descendants(os.getpid()) if MARK in host.read(f"/proc/{pid}/cmdline")]


def test_dead_caller_leaves_nothing_of_a_paused_sandbox() -> None:
    script = (
        "import stockade, sys\n"
        "sandbox = stockade.Sandbox.create()\n"
        f"sandbox.start_command(['sleep', '{MARK}'])\n"
        "sandbox.pause()\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    caller = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    assert caller.stdout.readline() == "ready\n"
    caller.kill()
    caller.communicate()
    assert host.eventually(lambda: not _sleeping(), 10)


@pytest.mark.timing
def test_first_cell_after_a_pause_does_not_wait_for_a_look() -> None:
    """A look after CPU time reads the list of locks, for which the kernel has the warden wait some ten milliseconds."""
    times = []
    with Sandbox.create() as sandbox, sandbox.interpreter() as python:
        for _ in range(9):
            python.run("sum(range(10 ** 6))")
            sandbox.pause()
            sandbox.resume()
            begin = time.perf_counter()
            python.run("1")
            times.append(time.perf_counter() - begin)
    assert sorted(times)[5] < 0.006
