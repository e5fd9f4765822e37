"""Containers of the ``oci`` backend that wait for a job: used once, for one policy, and with nothing of any job before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import host

import stockade

pytestmark = [pytest.mark.needs("crun"), pytest.mark.timing]
PYTHON = "/usr/bin/python3"
SLEEP = ["sleep", "61.5"]
SCRIPT = (
    "import stockade, time; stockade.run_command(['true'], backend='oci'); print('ready', flush=True); time.sleep(60)"
)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that each test leaves no process, mount, file or control group on the host."""
    with host.as_before():
        yield


def _parent(pid: int) -> int:
    return int(host.read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])


def _waiting(root: int | None = None) -> list[int]:
    """Return the runtimes below ``root`` whose container waits: its first process has opened the pipe, and no other."""
    found = []
    for pid in host.descendants(root):
        if host.name(pid) == "sh" and host.name(_parent(pid)) == "crun" and _reads_pipe(pid):
            found.append(_parent(pid))
    return found


def _reads_pipe(pid: int) -> bool:
    try:
        return any("stockade-job" in str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def _wait() -> int:
    assert host.eventually(lambda: len(_waiting()) == 1, 10)
    return _waiting()[0]


def _crun_of_a_run(box: stockade.Runner) -> int:
    """Return the runtime above the guest of one run."""
    with box.stream_command(SLEEP) as run:
        assert host.eventually(lambda: bool(_sleepers()), 10)
        pid = _sleepers()[0]
        while host.name(pid) != "crun":
            pid = _parent(pid)
        run.cancel()
        for _ in run:
            pass
    return pid


def _sleepers() -> list[int]:
    return [pid for pid in host.descendants() if host.read(f"/proc/{pid}/cmdline") == "sleep\x0061.5\0"]


def test_run_takes_the_waiting_container_and_uses_it_once() -> None:
    box = stockade.Runner(backend="oci")
    assert box.run_command(["true"]).ok
    first = _wait()
    assert _crun_of_a_run(box) == first
    second = _wait()
    assert second != first
    assert _crun_of_a_run(box) == second


def test_other_policy_takes_no_waiting_container() -> None:
    assert stockade.run_command(["true"], backend="oci").ok
    waiting = _wait()
    assert _crun_of_a_run(stockade.Runner({"limits": {"file_size": "1MiB"}}, backend="oci")) != waiting
    assert host.state(waiting) not in {"", "Z", "X"}


def test_next_run_finds_nothing_of_the_last() -> None:
    box = stockade.Runner(backend="oci")
    code = (
        "import os\nseen = sorted(os.listdir('/tmp') + os.listdir('/dev/shm') + os.listdir('.'))\n"
        "for place in ('/tmp/', '/dev/shm/', ''): open(place + 'mark', 'w').close()\n"
        "[seen, os.getpid()]"
    )
    values = []
    for _ in range(3):
        values.append(box.run(code, interpreter=PYTHON).value)
        _wait()
    assert values == [[[], 2]] * 3


def test_waiting_container_has_nothing_of_a_job() -> None:
    run = {"environment": {"WORD": "the-word-of-a-job"}, "files": {"a": b"the-word-of-a-job"}, "stdin": b"x"}
    assert stockade.run_command(["echo", "the-word-of-a-job"], backend="oci", **run).ok
    waiting = _wait()
    (first,) = [pid for pid in host.descendants() if _parent(pid) == waiting]
    words = [Path(f"/proc/{first}/{name}").read_bytes() for name in ("environ", "cmdline")]
    root = Path(f"/proc/{first}/root")
    found = [path.name for place in ("tmp", "dev/shm", "workspace") for path in (root / place).iterdir()]
    assert b"the-word-of-a-job" not in b"".join(words)
    assert found == []


def test_guest_finds_no_pipe_and_no_code_of_its_own_job() -> None:
    box = stockade.Runner(backend="oci")
    for _ in range(2):
        found = box.run_command(["sh", "-c", "ls -A / /proc/self/fd; cat /proc/1/environ"], environment={"WORD": "x"})
        assert found.ok, found
        assert "stockade" not in found.stdout
        assert "WORD" not in found.stdout
        _wait()


@pytest.mark.parametrize("victim", ["crun", "sh"])
def test_dead_waiting_container_is_not_used(victim: str) -> None:
    box = stockade.Runner(backend="oci")
    assert box.run_command(["true"]).ok
    waiting = _wait()
    (first,) = [pid for pid in host.descendants() if _parent(pid) == waiting]
    reaper = _parent(_parent(waiting))
    os.kill({"crun": waiting, "sh": first}[victim], signal.SIGKILL)
    assert host.eventually(lambda: {host.state(pid) for pid in (waiting, first, reaper)} <= {"", "Z", "X"}, 5)
    assert box.run_command(["true"]).ok


def test_killed_caller_leaves_no_waiting_container() -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE) as caller:
        try:
            assert host.eventually(lambda: bool(_waiting(caller.pid)), 15)
            tree = host.descendants(caller.pid)
            caller.kill()
            assert host.eventually(lambda: not [pid for pid in tree if host.state(pid) not in {"", "Z", "X"}], 2)
        finally:
            caller.kill()


def test_large_job_goes_through_the_pipe_whole() -> None:
    words = ["x" * 100_000, *map(str, range(2000))]
    result = stockade.run_command(["sh", "-c", 'echo "$# ${#1}"', "sh", *words], backend="oci")
    assert result.stdout == "2001 100000\n", result


def test_clock_begins_when_the_container_is_there() -> None:
    result = stockade.run_command(["sleep", "0.5"], backend="oci", policy={"limits": {"wall_time": 5}})
    assert result.ok
    assert 0.5 <= result.usage.wall_seconds < 1.5
