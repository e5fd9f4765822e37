"""Kills around a container of the ``oci`` backend, and attempts to get at the runtime from inside."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import host

import stockade

pytestmark = [pytest.mark.needs("crun"), pytest.mark.timing]
_IN_CREATE = 0x100  # inotify(7)
SCRIPT = "import stockade; print('ready', flush=True); stockade.run_command(['sleep', '61.5'], backend='oci')"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that each test leaves no process, mount, file or control group on the host."""
    with host.as_before():
        yield


def _sleeper(root: int) -> list[int]:
    """Return the guests that sleep below ``root``, once the container is up."""
    return [pid for pid in host.descendants(root) if host.read(f"/proc/{pid}/cmdline") == "sleep\x0061.5\0"]


def _named(root: int, name: str) -> list[int]:
    return [pid for pid in host.descendants(root) if host.name(pid) == name]


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if host.state(pid) not in {"", "Z", "X"}]


@pytest.mark.parametrize("victims", [("caller",), ("warden",), ("caller", "warden")])
def test_kill_leaves_no_container(victims: tuple[str, ...]) -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE) as caller:
        try:
            assert host.eventually(lambda: bool(_sleeper(caller.pid)), 10)
            tree = host.descendants(caller.pid)
            pids = {"caller": caller.pid, "warden": tree[0]}
            for victim in victims:
                os.kill(pids[victim], signal.SIGKILL)
            assert host.eventually(lambda: not _alive(tree), 1), [host.name(pid) for pid in _alive(tree)]
        finally:
            caller.kill()
    assert stockade.run_command(["true"], backend="oci").ok  # takes what they left behind


def test_runtime_makes_no_file_in_tmp() -> None:
    box = stockade.Runner(backend="oci")  # asks the runtime for its version, which it answers from a copy in /tmp
    box.run_command(["true"]).check()
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    try:
        libc.inotify_add_watch(watch, b"/tmp", _IN_CREATE)
        box.run_command(["true"]).check()
        with tempfile.NamedTemporaryFile(prefix="stockade-test-", dir="/tmp") as last:
            made = os.read(watch, 1 << 16)
            assert last.name.encode()[5:] in made and b"crun." not in made
    finally:
        os.close(watch)


@pytest.mark.parametrize("victim", ["crun", "sh"])
def test_killed_engine_ends_the_container(victim: str) -> None:
    results: list[stockade.Result] = []
    run = threading.Thread(
        target=lambda: results.append(stockade.run_command(["sleep", "61.5"], backend="oci")), daemon=True
    )
    run.start()
    assert host.eventually(lambda: bool(_sleeper(os.getpid())), 10)
    (sleeper,) = _sleeper(os.getpid())
    begin = time.monotonic()
    os.kill(_named(os.getpid(), victim)[0], signal.SIGKILL)
    run.join(5)
    assert time.monotonic() - begin < 1
    assert not _alive([sleeper])
    if victim == "crun":
        assert results[0].outcome is stockade.Outcome.SANDBOX_FAILED
        assert "signal 9 from outside ended the runtime" in results[0].error.message
    else:
        assert (results[0].outcome, results[0].signal) == (stockade.Outcome.CRASHED, signal.SIGKILL)


def test_container_leaves_no_mounts_on_the_host() -> None:
    before = Path("/proc/self/mountinfo").read_text()
    assert stockade.run_command(["true"], backend="oci").ok
    assert Path("/proc/self/mountinfo").read_text() == before


def test_guest_holds_no_descriptor_of_the_runtime() -> None:
    code = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1], os.path.exists('/proc/self/fd/199'))"
    result = stockade.run(code, backend="oci", interpreter="/usr/bin/python3")
    assert result.stdout == "[0, 1, 2, 3] False\n", result


def test_guest_sees_no_process_of_the_runtime() -> None:
    result = stockade.run_command(["sh", "-c", "echo /proc/[0-9]*; cat /proc/[0-9]*/comm"], backend="oci")
    assert result.stdout.split() == ["/proc/1", "/proc/2", "sh", "sh"], result


def test_orphans_of_a_guest_are_reaped() -> None:
    code = "for i in 1 2 3 4 5 6 7 8 9; do (true & ) ; done; sleep 0.3; cat /proc/[0-9]*/stat | grep -c ' Z ' || true"
    result = stockade.run_command(["sh", "-c", code], backend="oci")
    assert result.stdout == "0\n", result


def test_program_with_name_of_a_builtin_is_the_program() -> None:
    result = stockade.run_command(["printf", "%(x)T"], backend="oci")
    assert result.exit_code == 1, "a builtin of a shell would know this format"
    assert stockade.run_command(["exit", "3"], backend="oci").error.type == "CommandNotFound"


def test_container_gets_signals_and_pauses() -> None:
    code = "trap 'echo caught; exit 4' TERM; echo up; while :; do sleep 0.05; done"
    with stockade.Runner(backend="oci").stream_command(["sh", "-c", code]) as run:
        for event in run:
            if getattr(event, "data", b"") in (b"up\n", "up\n"):
                run.pause()
                run.resume()
                run.send_signal(signal.SIGTERM)
        result = run.result
    assert (result.stdout, result.exit_code) == ("up\ncaught\n", 4), result


def test_guest_sees_its_groups_as_root() -> None:
    result = stockade.run_command(["cat", "/proc/self/cgroup"], backend="oci")
    assert {line.split(":")[2] for line in result.stdout.split()} == {"/"}, result.stdout
