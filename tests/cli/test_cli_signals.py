"""Ctrl-C, readers that go away, and terminals, for the real command."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.timing

COMMAND = [sys.executable, "-m", "stockade"]
SLEEP = "86399.25"


def test_ctrl_c_ends_run_and_leaves_nothing(start):
    process = start("run", "--", "sh", "-c", f"sleep {SLEEP} & echo ready; sleep {SLEEP}")
    assert process.stdout.readline() == b"ready\n"
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert time.monotonic() - begun < 1
    assert err == b"stockade: interrupted\n"
    assert not _sleepers()


def test_ctrl_c_with_json_gives_verdict(start):
    process = start("run", "--json", "--result-file", "v.json", "--", "sleep", SLEEP)
    _wait_for(_sleepers)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=10)
    result = json.loads(out)
    assert (process.returncode, result["outcome"], err) == (130, "cancelled", b"")
    assert result["usage"]["wall_seconds"] > 0
    assert result["limits_met"]


def test_ctrl_c_while_output_is_not_read(start):
    process = start("run", "--limit", "output=unlimited", "--", "yes", SLEEP)
    _wait_for(lambda: _is_blocked_in_write(process.pid))
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=10) == 130
    assert time.monotonic() - begun < 1


def test_sigterm_leaves_nothing(start):
    process = start("run", "--", "sleep", SLEEP)
    _wait_for(_sleepers)
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == -signal.SIGTERM
    _wait_for(lambda: not _sleepers())


def test_output_reader_gone_ends_run_quietly(start):
    process = start("run", "--limit", "output=unlimited", "--", "yes", SLEEP)
    assert process.stdout.readline() == f"{SLEEP}\n".encode()
    process.stdout.close()
    assert process.wait(timeout=10) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""


@pytest.mark.parametrize(
    "words",
    [["run", "-c", "print(1)"], ["run", "--json", "-c", "1"], ["plan"], ["plan", "--json"], ["doctor"],
     ["policy", "show"], ["policy", "schema"], ["run", "--json", "--bogus"], ["--help"], ["--version"]],
)  # fmt: skip
def test_closed_stdout_gives_no_traceback(start, words):
    read, write = os.pipe()
    os.close(read)
    process = start(*words, stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=20)
    assert err == b""
    assert process.returncode in (1, 128 + signal.SIGPIPE)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["run", "--bogus"], 2),
        (["run", "--limit", "memory=-1", "-c", "1"], 2),
        (["run", "-c", "import sys; sys.stderr.write('x')"], 0),
    ],
)
def test_closed_stderr_changes_nothing(start, words, status):
    read, write = os.pipe()
    os.close(read)
    process = start(*words, stderr=write)
    os.close(write)
    assert process.wait(timeout=20) == status


def test_full_disk_behind_stdout_is_reported(start):
    with Path("/dev/full").open("wb") as full:
        process = start("run", "-c", "print(1)", stdout=full)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 125
    assert err == b"stockade: standard output: No space left on device\n"


def test_colour_is_off_in_a_pipe(stockade):
    for words in (["plan"], ["doctor"], ["--help"], ["policy", "show"]):
        assert b"\x1b" not in stockade(*words).stdout


def test_colour_is_on_in_a_terminal_by_default(folder):
    assert b"\x1b[" in _on_terminal(folder, {"TERM": "xterm"})
    for plain in ({"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}):
        assert b"\x1b" not in _on_terminal(folder, plain)


def test_table_fits_the_terminal(folder):
    for line in _on_terminal(folder, {"COLUMNS": "120", "TERM": "dumb"}).decode().splitlines()[2:]:
        assert len(line) <= 120


def _on_terminal(folder: Path, extra: dict[str, str]) -> bytes:
    ours, theirs = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM", "COLUMNS")}
    process = subprocess.Popen(
        [*COMMAND, "plan"], cwd=folder, env=clean | extra, stdin=subprocess.DEVNULL, stdout=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 1 << 16):
            shown += piece
    except OSError:  # the terminal's other end is closed
        pass
    os.close(ours)
    assert process.wait(timeout=20) == 0
    return shown


def _sleepers() -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"sleep\0{SLEEP}\0".encode():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def _is_blocked_in_write(pid: int) -> bool:
    return "pipe_write" in Path(f"/proc/{pid}/wchan").read_text() or _syscall(pid) == "1"


def _syscall(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/syscall").read_text().split()[0]
    except OSError:
        return ""


def _wait_for(condition) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to that")
