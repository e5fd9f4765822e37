"""``stockade shell``: a command at a terminal, or with pipes if no terminal types, in a sandbox that lives as long."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, TextIO

import click

from stockade.cli.audit import audit_options, observe
from stockade.cli.options import policy_from, policy_options, trust_option
from stockade.cli.packages import packages_folder, with_option
from stockade.cli.receipt import status
from stockade.cli.reporting import Command, say
from stockade.cli.secrets import secret_option

if TYPE_CHECKING:
    from stockade.api.process import Process, ProcessOutput
    from stockade.api.sandbox import Sandbox
    from stockade.api.terminal import Terminal
    from stockade.runs.result import Result
    from stockade.runs.secret import Secret

_CHUNK = 1 << 16
_TURN_SECONDS = 0.02
_AGAIN_SECONDS = 0.5
_END = b"\x04"
_HELP = """Start a shell in a sandbox of its own, at this terminal.

Everything that the shell does stays in the sandbox, which ends with the shell. COMMAND replaces the shell, and comes
from the sandbox's own PATH. Keys go to the sandbox as they are: Ctrl-C interrupts what runs there, and Ctrl-D ends the
shell. Where standard input is a pipe or a file, the shell has no terminal: it reads commands from there, without a
prompt and without an echo.

The exit status is that of the shell, or what `stockade run --help` says if something else ended it.
"""
_EXAMPLES = """\b
Examples:
  stockade shell
  stockade shell --workspace . --access overlay
  stockade shell --limit memory=1GiB -- python3
  stockade shell --with pytest -- pytest --version
  echo 'ls /; exit 3' | stockade shell
"""


@click.command(
    "shell",
    cls=Command,
    help=_HELP,
    epilog=_EXAMPLES,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@policy_options
@trust_option
@secret_option
@audit_options
@click.option("--packages", metavar="PATH", help="Folder of packages, as for 'stockade run'.")
@with_option
@click.option("--lifetime", type=float, default=3600.0, metavar="SECONDS", help="When all of it ends; 3600.")
@click.option("--terminal", is_flag=True, help="Give the command a terminal also where standard input is none.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] [COMMAND [ARGS]...]")
def shell(
    words: tuple[str, ...],
    *,
    packages: str | None,
    requirements: tuple[str, ...],
    trust: str | None,
    lifetime: float,
    terminal: bool,
    secrets: dict[str, Secret],
    **options: Any,
) -> int:
    """Run the shell and return its exit status."""
    from stockade.api.sandbox import Sandbox

    observe(options)
    policy = policy_from(options, trust)
    how: Any = {"trust": trust, "secrets": secrets, "idle_timeout": None, "max_lifetime": lifetime}
    with Sandbox.create(policy, packages=packages_folder(packages, requirements, policy), **how) as sandbox:
        if terminal or os.isatty(0):
            return _reported(_at_terminal(sandbox, words or ("sh", "-i")))
        return _reported(_with_pipes(sandbox, words or ("sh",)))


def _with_pipes(sandbox: Sandbox, words: tuple[str, ...]) -> Result:
    with sandbox.start_command(words) as process:
        Thread(target=_feed, args=(process,), daemon=True).start()  # it may wait for input when all is over
        errors = Thread(target=_copy_errors, args=(process.stderr,), daemon=True)
        errors.start()
        _copy(process.stdout, sys.stdout)
        errors.join()
        return process.wait()


def _feed(process: Process) -> None:
    """Pass standard input on, until it ends or the process does."""
    with suppress(OSError):
        while data := os.read(0, _CHUNK):
            process.stdin.write(data)
    process.stdin.close()


def _copy(stream: ProcessOutput, to: TextIO) -> None:
    while data := stream.read(_CHUNK):
        to.buffer.write(data)
        to.buffer.flush()


def _copy_errors(stream: ProcessOutput) -> None:
    try:
        _copy(stream, sys.stderr)
    except OSError:  # nobody reads them, and the command must not wait for a reader
        while stream.read(_CHUNK):
            pass


def _at_terminal(sandbox: Sandbox, words: tuple[str, ...]) -> Result:
    columns, rows = shutil.get_terminal_size()
    variables = {"TERM": os.environ["TERM"]} if "TERM" in os.environ else None
    with sandbox.terminal(words, rows=max(1, rows), columns=max(1, columns), environment=variables) as terminal:
        with _raw(), _noting_sizes() as sizes:
            _pass_on(terminal, sizes)
        return terminal.wait()


def _reported(result: Result) -> int:
    """Say why the command ended, if it did not end by itself, and return the exit status."""
    if result.error is not None:  # the command was never started, or the sandbox failed
        say(result.error.message)
    elif result.outcome.value in ("limit_exceeded", "crashed"):
        say(result.summary())
    return status(result)


def _pass_on(terminal: Terminal, sizes: list[tuple[int, int]]) -> None:
    """Pass bytes both ways until the command ends, and each new size of this terminal."""
    keys = _Keys(terminal)
    while True:
        while sizes:
            terminal.resize(*sizes.pop())
        try:
            data = terminal.read(_CHUNK, timeout=_TURN_SECONDS)
            if not data:
                return
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except TimeoutError:
            pass
        keys.pass_on()


class _Keys:
    """Standard input, passed on as keys."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._ended = float("inf")
        self._held = b""

    def pass_on(self) -> None:
        """Type what has come. At the end, type Ctrl-D repeatedly: a program that sets up its terminal drops one.

        Keys that the command does not take now stay held, since it may wait for us to read its output.
        """
        now = time.monotonic()
        if not self._held and self._ended == float("inf") and select.select([0], [], [], 0)[0]:
            self._held = os.read(0, _CHUNK)
            self._ended = self._ended if self._held else now
        if not self._held and now >= self._ended:
            self._ended, self._held = now + _AGAIN_SECONDS, _END
        if self._held:
            with suppress(BrokenPipeError, TimeoutError):  # the command has ended, which the next read finds; or waits
                self._terminal.write(self._held, timeout=0.0)
                self._held = b""


@contextmanager
def _raw() -> Iterator[None]:
    """Pass keys on as they are, if standard input is a terminal."""
    if not os.isatty(0):
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # keys that came early are for the shell
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextmanager
def _noting_sizes() -> Iterator[list[tuple[int, int]]]:
    """Yield a list that gets each new size of this terminal, as rows and columns."""
    sizes: list[tuple[int, int]] = []

    def note(_number: int, _frame: object) -> None:
        columns, rows = os.get_terminal_size(1)
        sizes[:] = [(max(1, rows), max(1, columns))]

    if not os.isatty(1):
        yield sizes
        return
    before = signal.signal(signal.SIGWINCH, note)
    try:
        yield sizes
    finally:
        signal.signal(signal.SIGWINCH, before)
