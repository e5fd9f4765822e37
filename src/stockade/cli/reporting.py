"""Reports of the command line: JSON on standard output, sentences on standard error, exit statuses."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from stockade.core.errors import BackendUnavailable, JobError, PlanError, PolicyError, StockadeError
from stockade.core.strict_json import dumps

BAD_USAGE = 2
SETUP_FAILED = 125
INTERRUPTED = 128 + signal.SIGINT
READER_GONE = 128 + signal.SIGPIPE

_MORE = "'stockade plan' shows what each backend holds here"
_OPTIONS = (
    (re.compile(r"accept=\{'(\w+)': '(\w+)'\}"), r"--accept \1=\2"),
    (re.compile(r"limits=\{'(\w+)': 'unlimited'\}"), r"--limit \1=unlimited"),
)
"""What an error about a policy advises in Python, and the option that does the same."""


class Command(click.Command):
    """A command that reports an error as one sentence, or as one JSON object if ``--json`` was given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. An error names the option that was probably meant."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            from stockade.cli.mistakes import advised

            raise advised(error, self) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; return its exit status."""
        as_json = bool(ctx.params.get("as_json"))
        try:
            return super().invoke(ctx)
        except StockadeError as error:
            return _guarded(partial(report, error, as_json=as_json))
        except KeyboardInterrupt:
            return _guarded(partial(_interrupted, as_json=as_json))
        except OSError as error:
            return _lost(error)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


def report(error: StockadeError, *, as_json: bool) -> int:
    """Report an error and return its exit status."""
    if as_json:
        print_json(error.as_json())
    else:
        for line in _sentences(error):
            say(line)
    return BAD_USAGE if isinstance(error, PolicyError | JobError) else SETUP_FAILED


def usage_error(error: click.ClickException, words: Sequence[str]) -> int:
    """Report a misuse of the command line, as text or as JSON, and return the exit status."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if _json_wanted(context, words):
        usage = context.get_usage() if context is not None else ""
        data = {"error": "UsageError", "message": error.format_message(), "usage": usage}
        return _guarded(partial(_as_json, data, BAD_USAGE))
    with _ignore_write_errors():
        error.show()
    return BAD_USAGE


def print_json(data: Any, *, indent: int | None = None) -> None:
    """Print ``data`` on standard output: plain ASCII, on one line unless ``indent`` is set."""
    click.echo(dumps(data, indent=indent))


def say(message: str) -> None:
    """Print one line on standard error. Characters that control a terminal are escaped."""
    with _ignore_write_errors():
        click.echo("stockade: " + printable(message), err=True)


def printable(text: str) -> str:
    """Return ``text`` on one line, with every character that is not printable escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def coloured() -> bool:
    """Return whether to use colour: on a terminal, unless NO_COLOR forbids it (https://no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and sys.stdout is not None and sys.stdout.isatty()


def _sentences(error: StockadeError) -> Iterable[str]:
    if isinstance(error, PolicyError):
        return map(str, error.problems)
    if isinstance(error, PlanError):
        missing = (f"  {guarantee}: {_with_options(reason)}" for guarantee, reason in error.missing.items())
        return (f"backend {error.backend!r} cannot hold this policy here:", *missing, _MORE)
    if isinstance(error, BackendUnavailable):
        return _ways(error)
    return (str(error),)


def _with_options(reason: str) -> str:
    for python, option in _OPTIONS:
        reason = python.sub(option, reason)
    return reason


def printable_lines(text: str) -> str:
    """Return ``text`` with its line ends and tabs, and every other character that is not printable escaped."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


def _ways(error: BackendUnavailable) -> Iterable[str]:
    """Return the lines of the error, with options of the command line for what works here."""
    accept = " ".join(f"--accept {name}={strength}" for name, strength in error.accept.items())
    for number, line in enumerate(_grouped(str(error).split("\n"))):
        if line.startswith("works here, if"):
            yield "  " + line.replace("isolation='namespaces' in the policy", "--isolation namespaces")
        elif line.startswith("works here: accept="):
            yield f"  works here: {accept} {line[line.index('(') :]}"
        elif line.startswith("works here: runs by "):  # api.creating
            yield "  works here: 'stockade run', which makes a fresh sandbox for each run"
        else:
            yield line if number == 0 else f"  {line}"


def _grouped(lines: Iterable[str]) -> Iterable[str]:
    """Return the lines, with one for all backends that cannot be used for the same reason."""
    found: dict[str, list[str]] = {}
    for line in lines:
        name, colon, reason = line.partition(": ")
        is_backend = colon and name.isidentifier()
        found.setdefault(reason if is_backend else line, []).extend([name] if is_backend else [])
    return (f"{', '.join(names)}: {reason}" if names else reason for reason, names in found.items())


def _interrupted(*, as_json: bool) -> int:
    if not as_json:
        return INTERRUPTED
    return _as_json({"error": "Interrupted", "message": "interrupted before the verdict"}, INTERRUPTED)


def _as_json(data: Any, status: int) -> int:
    print_json(data)
    return status


def _guarded(print_it: Callable[[], int]) -> int:
    try:
        return print_it()
    except OSError as error:
        return _lost(error)


def _lost(error: OSError) -> int:
    """Report that our own output could not be written, unless its reader is gone."""
    _silence(1)
    if isinstance(error, BrokenPipeError):
        return READER_GONE
    say(str(error))
    return SETUP_FAILED


@contextmanager
def _ignore_write_errors() -> Iterator[None]:
    """Ignore that our standard error has no reader; the exit status reports the error too."""
    try:
        yield
    except OSError:
        _silence(2)


def _silence(fd: int) -> None:
    """Redirect a stream to /dev/null; otherwise the last flush of the interpreter would fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, fd)
    os.close(nowhere)


def _json_wanted(context: click.Context | None, words: Sequence[str]) -> bool:
    if context is not None and "as_json" in context.params:
        return bool(context.params["as_json"])
    own = words[: words.index("--")] if "--" in words else words
    return "--json" in own
