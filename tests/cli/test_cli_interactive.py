"""``stockade run -i`` on a real terminal: lines are passed on at once, and Ctrl-C goes to the guest first."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.timing

CTRL_C, CTRL_D = b"\x03", b"\x04"
IGNORES = (
    "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(60)"
)
COUNTS = (
    "import os, signal, time\nn = 0\ndef count(*_):\n    global n; n += 1; os.write(1, b'got %d\\n' % n)\n"
    "signal.signal(signal.SIGINT, count)\nos.write(1, b'ready\\n')\nwhile n < 2: time.sleep(0.01)\nos._exit(5)"
)


class Terminal:
    """A terminal that runs the real command, as a user at a keyboard sees it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.shown = b""

    def start(self, *words: str) -> None:
        pid, self._fd = pty.fork()
        if pid == 0:
            os.chdir(self._folder)
            os.execv(sys.executable, [sys.executable, "-m", "stockade", *words])
        self.pid = pid

    def type(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def expect(self, words: bytes, times: int = 1) -> None:
        deadline = time.monotonic() + 20
        while self.shown.count(words) < times:
            assert time.monotonic() < deadline, self.shown
            self._read()

    def status(self) -> int:
        try:
            while self._read():
                pass
        except OSError:  # the last process has closed the terminal
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        os.close(self._fd)

    def _read(self) -> bytes:
        piece = os.read(self._fd, 1 << 16)
        self.shown += piece
        return piece


@pytest.fixture
def terminal(folder: Path) -> Iterator[Terminal]:
    terminal = Terminal(folder)
    yield terminal
    terminal.close()


def test_interactive_lines_arrive_one_by_one(terminal):
    code = "while True:\n    try: print('heard', input().upper(), flush=True)\n    except EOFError: break\nprint('end')"
    terminal.start("run", "-i", "-c", code)
    terminal.type(b"one\n")
    terminal.expect(b"heard ONE")
    terminal.type(b"two\n")
    terminal.expect(b"heard TWO")
    terminal.type(CTRL_D)
    terminal.expect(b"end")
    assert terminal.status() == 0


def test_run_not_interactive_ignores_terminal_input(terminal):
    terminal.start("run", "-c", "import sys; print(repr(sys.stdin.read()))")
    terminal.expect(b"''")
    assert terminal.status() == 0


def test_interactive_ctrl_c_reaches_guest_first(terminal):
    terminal.start("run", "-i", "-c", COUNTS)
    terminal.expect(b"ready")
    terminal.type(CTRL_C)
    terminal.expect(b"got 1")
    time.sleep(1.2)
    terminal.type(CTRL_C)
    terminal.expect(b"got 2")
    assert terminal.status() == 5


def test_interactive_ctrl_c_uncaught_ends_guest(terminal):
    # A shell that forks just then misses the signal, and waits for its child. So the shell becomes "sleep".
    terminal.start("run", "-i", "--", "sh", "-c", "echo ready; exec sleep 60")
    terminal.expect(b"ready")
    terminal.type(CTRL_C)
    assert terminal.status() == 128 + signal.SIGINT


def test_interactive_quick_second_ctrl_c_ends_run(terminal):
    terminal.start("run", "-i", "-c", IGNORES)
    terminal.expect(b"ready")
    begun = time.monotonic()
    terminal.type(CTRL_C)
    time.sleep(0.3)
    terminal.type(CTRL_C)
    assert terminal.status() == 130
    assert time.monotonic() - begun < 5
    assert b"stockade: interrupted" in terminal.shown


def test_interactive_late_second_ctrl_c_goes_to_guest(terminal):
    terminal.start("run", "-i", "-c", IGNORES)
    terminal.expect(b"ready")
    for _ in range(2):
        terminal.type(CTRL_C)
        time.sleep(1.2)
    assert os.waitpid(terminal.pid, os.WNOHANG) == (0, 0)
    terminal.type(CTRL_C)
    time.sleep(0.2)
    terminal.type(CTRL_C)
    assert terminal.status() == 130


def test_interactive_third_ctrl_c_gives_up_at_once(start):
    """The third Ctrl-C works even while nobody reads our output, when nothing else can end the command."""
    process = start("run", "-i", "--limit", "output=unlimited", "--", "sh", "-c", "trap '' INT; yes")
    time.sleep(1.5)
    for pause in (0.2, 0.2, 0):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(pause)
    begun = time.monotonic()
    assert process.wait(timeout=10) == 130
    assert time.monotonic() - begun < 2


def test_interactive_pipe_is_passed_on(stockade):
    assert stockade("run", "-i", "--", "cat", stdin=b"data").stdout == b"data"


def test_interactive_code_from_stdin_is_refused(stockade):
    done = stockade("run", "-i", "-", stdin=b"print(1)")
    assert done.returncode == 2
    assert b"--interactive" in done.stderr


def test_run_not_interactive_first_ctrl_c_ends_run(terminal):
    terminal.start("run", "-c", IGNORES)
    terminal.expect(b"ready")
    terminal.type(CTRL_C)
    assert terminal.status() == 130


def test_run_help_explains_ctrl_c():
    done = subprocess.run(
        [sys.executable, "-m", "stockade", "run", "--help"], capture_output=True, text=True, check=True
    )
    assert "second one within a second ends the run" in " ".join(done.stdout.split())
