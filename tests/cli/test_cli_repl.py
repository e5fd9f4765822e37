"""``stockade repl``: cells of an interpreter in a sandbox, from a pipe and from a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_repl_runs_standard_input_as_one_cell(stockade: Callable[..., Any]) -> None:
    done = stockade("repl", stdin=b"import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n42\n", b"err\n")
    failed = stockade("repl", "ruby", stdin=b"1 / 0\n")
    assert failed.returncode == 1
    assert b"ZeroDivisionError" in failed.stderr
    failed = stockade("repl", stdin=b"1 / 0\n")
    assert failed.stderr.startswith(b"Traceback (most recent call last):\n") and b"\n    1 / 0\n" in failed.stderr


def test_repl_writes_a_value_on_its_lines(stockade: Callable[..., Any]) -> None:
    source = b"class Table:\n    def __repr__(self): return 'a\\n\\tb\\x1b'\n\nTable()\n"
    assert stockade("repl", stdin=source).stdout == b"a\n        b\\x1b\n"


def test_repl_refuses_a_language_without_an_interpreter(stockade: Callable[..., Any]) -> None:
    done = stockade("repl", "shell", stdin=b"")
    assert done.returncode == 2
    assert b"'shell' has no interpreter that keeps state; there are python, ruby and javascript" in done.stderr


def test_repl_writes_pictures_and_escapes_values(stockade: Callable[..., Any], folder: Path) -> None:
    source = b"from IPython.display import Image, display\ndisplay(Image(b'\\x89PNG...'))\nchr(27) + '[2J'\n"
    done = stockade("repl", "--pictures", "plots", stdin=source)
    assert done.returncode == 0
    assert (folder / "plots" / "picture-1.png").read_bytes() == b"\x89PNG..."
    assert b"open it with care" in done.stderr
    assert b"\x1b" not in done.stdout
    again = stockade("repl", "--pictures", "plots", "--limit", "wall_time=10s", stdin=source)
    assert again.returncode == 0, again.stderr
    assert (folder / "plots" / "picture-2.png").exists()


def test_repl_writes_no_picture_through_a_folder_of_the_guest(stockade: Callable[..., Any], folder: Path) -> None:
    (folder / "open").mkdir(mode=0o777)
    (folder / "elsewhere").mkdir()
    (folder / "open" / "plots").symlink_to(folder / "elsewhere")
    source = b"from IPython.display import Image, display\ndisplay(Image(b'\x89PNG...'))\n"
    options = ("--write", str(folder / "open"), "--accept", "disk=absent")
    done = stockade("repl", "--pictures", "open/plots", *options, stdin=source)
    assert done.returncode == 2
    assert b"--pictures" in done.stderr and b"may write" in done.stderr
    assert not any((folder / "elsewhere").iterdir())


class Screen:
    """The terminal of a started command."""

    def __init__(self, fd: int) -> None:
        self.fd, self.text = fd, b""

    def expect(self, wanted: bytes, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while wanted not in self.text:
            assert select.select([self.fd], [], [], max(0.0, end - time.monotonic()))[0], self.text
            self.text += os.read(self.fd, 4096)
        self.text = self.text.partition(wanted)[2]

    def type(self, line: bytes) -> None:
        os.write(self.fd, line + b"\r")


def test_repl_at_a_terminal_keeps_state_over_interrupts(start: Callable[..., Any]) -> None:
    master, slave = pty.openpty()
    process = start("repl", stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    screen = Screen(master)
    screen.expect(b">>> ")
    screen.type(b"x = 41")
    screen.expect(b">>> ")
    screen.type(b"def wait(): print('be' + 'gun'); return all(True for _ in iter(int, 1))")
    screen.expect(b"... ")
    screen.type(b"")
    screen.expect(b">>> ")
    screen.type(b"wait()")
    screen.expect(b"begun")
    os.kill(process.pid, signal.SIGINT)
    screen.expect(b"KeyboardInterrupt")
    screen.expect(b">>> ")
    screen.type(b"x + 1")
    screen.expect(b"42")
    screen.expect(b">>> ")
    screen.type(b"import os; os._exit(3)")
    screen.expect(b"it exited with status 3; its state is lost")
    screen.expect(b">>> ")
    screen.type(b":restart")
    screen.expect(b">>> ")
    screen.type(b"'x' in globals()")
    screen.expect(b"False")
    screen.expect(b">>> ")
    os.write(master, b"\x04")
    assert process.wait(30) == 0
    os.close(master)
