"""``stockade shell``: a shell in a sandbox that lives as long as it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from threading import Thread, Timer

import pytest

pytestmark = [pytest.mark.needs("native")]
SHELL = [sys.executable, "-m", "stockade", "shell"]


def test_shell_with_pipes_echoes_nothing_and_has_no_prompt():
    typed = "echo $((6 * 7)) > note\ncat note; tty\nno-such-program\nexit 3\n"
    found = subprocess.run(SHELL, input=typed, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (3, "42\nnot a tty\n")
    assert found.stderr == "sh: 3: no-such-program: not found\n"


def test_shell_with_pipes_ends_with_its_command():
    """Input that never ends, more output than any buffer holds, and errors that nobody takes."""
    command = [*SHELL, "--", "sh", "-c", "head -c 3000000 /dev/zero >&2; head -c 3000000 | tr x y; exit 4"]
    with Path("/dev/full").open("wb") as full:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=full, bufsize=0)
    assert process.stdin is not None and process.stdout is not None
    deadline = Timer(100, process.kill)
    deadline.start()
    try:
        writer = Thread(target=process.stdin.write, args=(b"x" * 3_000_000,))
        writer.start()
        assert (process.stdout.read().count(b"y"), process.wait()) == (3_000_000, 4)
        writer.join()
    finally:
        deadline.cancel()
        process.kill()
        process.stdin.close()
        process.stdout.close()
        process.wait()


def test_shell_keeps_files_and_passes_status_on():
    typed = "echo $((6 * 7)) > note\ncat note; tty\nexit 3\n"
    command = [*SHELL, "--terminal"]
    found = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 3, found.stderr
    assert "42\n/dev/pts/0\n" in found.stdout


def test_shell_ends_with_its_input():
    command = [*SHELL, "--terminal", "--", "python3", "-q"]
    found = subprocess.run(command, input="print(6 * 7)\n", capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, "\n42\n" in found.stdout) == (0, True)


def test_shell_reads_on_while_its_input_waits():
    """A program stops to read while nobody takes its output. The terminal echoes too, and drops what it has no room for."""
    command = [*SHELL, "--terminal", "--", "sh", "-c", "stty raw; exec head -c 6000000"]
    found = subprocess.run(command, input=b"x" * 6_000_000, capture_output=True, timeout=100, check=False)
    assert found.returncode == 0 and found.stdout.count(b"x") > 6_000_000


def test_shell_past_its_lifetime_is_a_limit():
    command = [*SHELL, "--lifetime", "1", "--", "sleep", "60"]
    found = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 125 and "max_lifetime" in found.stderr


def test_shell_says_why_its_command_did_not_start():
    found = subprocess.run(
        [*SHELL, "--", "nothing"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert (found.returncode, found.stderr) == (127, "stockade: nothing: command not found\n")


def test_shell_gets_the_keys_that_came_before_it_was_ready():
    master, slave = pty.openpty()
    os.write(master, b"echo $((6 * 7))\nexit 5\n")
    process = subprocess.Popen(SHELL, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(master)
        os.close(slave)
    assert process.returncode == 5, err
    assert "\n42\n" in out.replace("\r", "")
