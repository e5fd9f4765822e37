"""``stockade repl``: type cells into an interpreter in a sandbox."""

from __future__ import annotations

import codeop
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stockade.cli.audit import audit_options, observe
from stockade.cli.options import backend_option, policy_from, policy_options, trust_option
from stockade.cli.packages import packages_folder, with_option
from stockade.cli.reporting import Command, printable_lines, say
from stockade.cli.secrets import secret_option

if TYPE_CHECKING:
    from stockade.api.sessions.interpreter import Interpreter
    from stockade.api.sessions.records import CellOutput, CellResult, Display
    from stockade.runs.secret import Secret
    from stockade.workspace.host_files import HostFile

_HELP = """Type code into an interpreter that lives in a sandbox, one cell after another.

LANGUAGE is python (the default), ruby or javascript. State lives from one cell to the next, until the end of input.
Python knows what notebooks know: !command, %cd, %env, %time, display(), await at the top level, and matplotlib.

Ctrl-C interrupts the running cell and keeps the state. Ctrl-D or exit ends the sandbox. The line :restart starts a
fresh interpreter. Standard input that is not a terminal is one cell: then the exit status is 0, or 1 if the cell fails.
"""
_EXAMPLES = """\b
Examples:
  stockade repl
  stockade repl ruby
  stockade repl --with pandas
  stockade repl --packages .venv --limit memory=1GiB --pictures plots
  echo '6 * 7' | stockade repl
"""
_LAST = ("exit", "quit", "exit()", "quit()")
"""Cells that end the prompt, as they end Python's own."""
_TYPES = {"image/png": ".png", "image/jpeg": ".jpg", "image/svg+xml": ".svg", "application/pdf": ".pdf"}


@click.command("repl", cls=Command, help=_HELP, epilog=_EXAMPLES)
@click.argument("language", default="python")
@click.option("--packages", metavar="PATH", help="Virtual environment with the packages that the code imports.")
@with_option
@click.option(
    "--timeout", type=float, metavar="SECONDS", help="Interrupt a cell after this; default: the policy's wall_time."
)
@click.option("--pictures", metavar="FOLDER", help="Write displayed pictures to files in FOLDER.")
@policy_options
@backend_option
@trust_option
@secret_option
@audit_options
def repl(
    language: str,
    *,
    packages: str | None,
    requirements: tuple[str, ...],
    timeout: float | None,
    pictures: str | None,
    backend: str | None,
    trust: str | None,
    secrets: dict[str, Secret],
    **options: Any,
) -> int:
    """Run cells until the end of input and return the exit status."""
    from stockade.api.sandbox import Sandbox

    observe(options)
    policy = policy_from(options, trust)
    packages = packages_folder(packages, requirements, policy)
    screen = _Screen(Path(pictures) if pictures else None, policy.filesystem.writable)
    with Sandbox.create(policy, backend=backend, trust=trust, packages=packages, secrets=secrets) as sandbox:
        interpreter = sandbox.interpreter(language)
        if not sys.stdin.isatty():
            return 0 if _run(interpreter, sys.stdin.read(), timeout, screen).ok else 1
        say(f"{language} {interpreter.version} in a sandbox; Ctrl-C interrupts a cell, Ctrl-D ends")
        for source in _typed(language):
            if source.strip() in _LAST:
                break
            if source.strip() == ":restart":
                interpreter.restart()
            elif not interpreter.alive:
                say("the interpreter is gone; :restart starts a fresh one")
            elif source.strip():
                _run(interpreter, source, timeout, screen)
    return 0


def _typed(language: str) -> Iterator[str]:
    """Yield the cells that a person types."""
    import readline  # noqa: F401 - input() edits lines and remembers them

    signal.signal(signal.SIGINT, signal.default_int_handler)
    while True:
        lines: list[str] = []
        try:
            while not lines or not _is_whole("\n".join(lines), language):
                lines.append(input("... " if lines else ">>> "))
        except KeyboardInterrupt:
            click.echo()
            continue
        except EOFError:
            click.echo()
            return
        yield "\n".join(lines)


def _is_whole(text: str, language: str) -> bool:
    """Return whether the text is a whole cell: a block of Python ends with an empty line."""
    if language not in ("python", "py", "python3"):
        return not text.endswith("\\")
    if text.startswith("%%"):
        return text.endswith("\n")
    if text.lstrip()[:1] in ("!", "%", ":", ""):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return codeop.compile_command(text) is not None
    except (SyntaxError, ValueError, OverflowError):
        return True  # the interpreter in the sandbox says what is wrong


def _run(interpreter: Interpreter, source: str, timeout: float | None, screen: _Screen) -> CellResult:
    """Run one cell. Ctrl-C interrupts it, by a thread: the handler itself may have stopped a message half sent."""
    before = signal.signal(signal.SIGINT, lambda *_: threading.Thread(target=interpreter.interrupt).start())
    try:
        cell = interpreter.run(source, timeout=timeout, on_event=screen.event)
    finally:
        signal.signal(signal.SIGINT, before)
    screen.result(cell)
    return cell


class _Screen:
    """Shows what cells do."""

    def __init__(self, pictures: Path | None, writable: Sequence[str]) -> None:
        """``writable`` are folders of the host that the code may write to: no picture may go through them."""
        self._pictures, self._writable, self._count = pictures, writable, 0
        if pictures is not None:
            self._place(pictures / "picture").close()

    def event(self, event: CellOutput | Display) -> None:
        """Show output or a display as it comes."""
        from stockade.api.sessions.records import CellOutput

        if isinstance(event, CellOutput):
            target = sys.stdout.buffer if event.stream == "stdout" else sys.stderr.buffer
            target.write(event.data)
            target.flush()
            return
        saved = False
        for kind, suffix in _TYPES.items():
            if kind in event.data and self._pictures is not None and not saved:
                saved = self._save(event.data[kind], suffix)
        if not saved:
            click.echo(printable_lines(str(event.data.get("text/plain", "")) or f"[{', '.join(event.data)}]"))

    def _save(self, data: Any, suffix: str) -> bool:
        path = self._free(suffix)
        with self._place(path) as place:
            fd = place.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL)  # never over a file that is there
            with os.fdopen(fd, "wb") as file:
                file.write(data if isinstance(data, bytes) else str(data).encode())
        say(f"wrote {path}; the code in the sandbox made it, so open it with care")
        return True

    def _place(self, path: Path) -> HostFile:
        from stockade.workspace.host_files import HostFile

        return HostFile(path, "--pictures", self._writable, makes=True)

    def _free(self, suffix: str) -> Path:
        """Return the path of the next picture that no earlier session has written."""
        assert self._pictures is not None
        while True:
            self._count += 1
            path = self._pictures / f"picture-{self._count}{suffix}"
            if not os.path.lexists(path):
                return path

    def result(self, cell: CellResult) -> None:
        """Show the value or the error of a cell."""
        if cell.value_repr is not None:
            click.echo(printable_lines(cell.value_repr))
        if cell.error is not None:
            from stockade.api.sessions.records import error_text

            click.echo(printable_lines(error_text(cell.error).rstrip()), err=True)
        for name, count in cell.omitted.items():
            say(f"left out: {count} {'displays' if name == 'displays' else f'bytes of {name}'}")
        if cell.outcome.value in ("timed_out", "died"):
            say(f"the cell {'passed its time' if cell.outcome.value == 'timed_out' else 'ended its interpreter'}")
        if cell.ended:
            say(f"the interpreter is gone: {cell.ended}; its state is lost")
