"""Attacks from one command of a living sandbox on its init, on the accounts of other commands, and on their set-up.

Each attack has a control: the same means, where nothing protects the target.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stockade import Outcome, Sandbox
from stockade.warden.cold import exec_server
from tests.support import host

pytestmark = [pytest.mark.needs("native"), pytest.mark.timing]
LOOK = """
import json, os, sys
pid, found = sys.argv[1], {}
for name in ("environ", "mem", "maps", "fd", "cwd", "ns/user", "oom_score_adj"):
    path = f"/proc/{pid}/{name}"
    try:
        if name in ("cwd", "ns/user"): os.readlink(path)
        elif name == "fd": os.listdir(path)
        else: os.read(os.open(path, os.O_RDWR if name in ("mem", "oom_score_adj") else os.O_RDONLY), 1)
        found[name] = "open"
    except OSError as error:
        found[name] = error.strerror
print(json.dumps(found))
"""
CATCH = """
import os
seen = set()
print("ready", flush=True)
while True:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            os.close(os.open(f"/proc/{pid}/environ", os.O_RDONLY))  # first: the process goes on meanwhile
            status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status").read().splitlines())
        except (OSError, ValueError):
            continue
        found = f"filters={status['Seccomp'].strip()} other={int(pid) != os.getpid()}"
        if found not in seen:
            seen.add(found)
            print(found, flush=True)
"""


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Start a sandbox, and close it after the test."""
    with Sandbox.create(timeout=20) as made:
        yield made


def looked_at(sandbox: Sandbox, pid: int) -> dict[str, str]:
    found: dict[str, str] = json.loads(sandbox.run_command(["python3", "-c", LOOK, str(pid)]).check().stdout)
    return found


def test_signals_do_not_reach_the_init(sandbox: Sandbox) -> None:
    other = sandbox.start_command(["sleep", "60"])
    for number in sorted(signal.valid_signals()):
        sandbox.run_command(["sh", "-c", f"kill -{number:d} 1 2>/dev/null"])
    assert sandbox.run_command(["echo", "alive"]).stdout == "alive\n"
    sandbox.run_command(["kill", "-9", str(other.pid)]).check()  # the control
    assert other.wait(10).signal == signal.SIGKILL


def test_init_cannot_be_read_or_written(sandbox: Sandbox) -> None:
    other = sandbox.start_command(["sleep", "60"])
    time.sleep(0.3)  # until it executes its program
    found = looked_at(sandbox, other.pid)
    assert (found["environ"], found["maps"], found["fd"]) == ("open", "open", "open")  # the control
    assert set(looked_at(sandbox, 1).values()) <= {
        "Permission denied",
        "Read-only file system",
        "Operation not permitted",
    }


def test_init_takes_no_limit_from_a_guest(sandbox: Sandbox) -> None:
    code = "import resource, sys; resource.prlimit(int(sys.argv[1]), resource.RLIMIT_NOFILE, (3, 3))"
    refused = sandbox.run_command(["python3", "-c", code, "1"])
    assert "PermissionError" in refused.stderr
    assert sandbox.run_command(["python3", "-c", code, "0"]).exit_code == 0  # the control: its own limit


def test_no_command_is_within_reach_before_its_filter(sandbox: Sandbox) -> None:
    catcher = sandbox.start_command(["python3", "-c", CATCH])
    assert catcher.stdout.readline(timeout=10) == b"ready\n"
    for _ in range(20):
        sandbox.run_command(["sleep", "0.02"]).check()
    catcher.kill()
    found = set(catcher.stdout.read().decode().splitlines())
    assert found == {
        "filters=2 other=False",
        "filters=2 other=True",
    }  # the control: behind their filters, it reaches them


def test_orphans_count_for_the_command_that_made_them(sandbox: Sandbox) -> None:
    spin = "(setsid sh -c 'while :; do :; done' &) ; sleep 20"
    begin = time.monotonic()
    result = sandbox.run_command(["sh", "-c", spin], cpu_time=0.5)
    assert (result.outcome, result.limit) == (Outcome.LIMIT_EXCEEDED, "cpu_time")
    other = sandbox.run_command(["sleep", "1.2"], cpu_time=0.5)  # the control: another command has its own account
    assert other.outcome is Outcome.COMPLETED
    assert time.monotonic() - begin < 18


@pytest.mark.needs("cgroup-cpuacct")
def test_process_left_by_a_command_stays_charged_to_it(sandbox: Sandbox) -> None:
    spin = "(setsid sh -c 'while :; do :; done' &)"
    assert sandbox.run_command(["sh", "-c", spin], cpu_time=0.5).outcome is Outcome.COMPLETED
    alive = ["sh", "-c", "ps -e -o args= | grep -c '^sh -c while'"]
    assert sandbox.run_command(alive).stdout == "1\n"
    assert host.eventually(lambda: sandbox.run_command(alive).stdout == "0\n", 10)


def test_command_cannot_leave_its_namespaces(sandbox: Sandbox) -> None:
    code = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "fd = os.open('/proc/self/ns/uts', os.O_RDONLY)\n"
        "print(libc.unshare(0x04000000), libc.setns(fd, 0x04000000), libc.unshare(0x10000000))"
    )
    assert sandbox.run_command(["python3", "-c", code]).stdout == "-1 -1 -1\n"


def test_init_imports_nothing_after_its_set_up(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("print('planted')")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from stockade.warden.cold import exec_server\n"
        "if sys.argv[2] == 'yes': exec_server._import_nothing()\n"
        "try: import planted\n"
        "except ImportError: print('refused')"
    )
    source = str(Path(exec_server.__file__).parents[3])
    for protected, printed in (("yes", "refused"), ("no", "planted")):
        command = [sys.executable, "-c", code, str(tmp_path), protected]
        found = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": source}, check=True
        )
        assert found.stdout == f"{printed}\n"
