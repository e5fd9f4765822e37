"""``stockade check``: advice on a script before it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stockade.cli.options import backend_option
from stockade.cli.packages import with_option
from stockade.cli.reporting import Command, json_option, print_json, printable, say
from stockade.core.errors import JobError

if TYPE_CHECKING:
    from stockade.advice.record import Advice

_HELP = """Read Python scripts, without running them, and name what deserves a look.

The advice is about loops without an exit, regular expressions that backtrack badly, calls that start programs, use the
network or run data as code, and imports that the sandbox does not have. Each line is FILE:LINE:COLUMN: KIND: MESSAGE.

This is advice, not a wall. Code can hide anything from it. Only the sandbox holds.

Each script is parsed in a sandbox of its own, by the interpreter that would run it. The exit status is 0 without
advice, 1 with advice, 2 for bad usage or a script that cannot be checked, 125 if no sandbox could be set up.
"""
_EXAMPLES = """\b
Examples:
  stockade check script.py
  stockade check answers/*.py
  stockade check --json -c 'while True: pass'
  stockade check --packages .venv script.py && stockade run --packages .venv script.py
  stockade check - < script.py
"""
ADVICE_FOUND = 1
_NOTE = "this is advice, not a wall: code can hide anything from it, and only the sandbox holds"


@click.command("check", cls=Command, help=_HELP, epilog=_EXAMPLES)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("-c", "code", metavar="CODE", help="Check this code.")
@click.option(
    "--language", metavar="NAME", help="Language of the code; only python can be checked. Default: by suffix."
)
@click.option("--interpreter", metavar="PATH", help="Interpreter, or virtual environment, that would run the code.")
@click.option("--packages", metavar="PATH", help="Virtual environment with the packages that the code imports.")
@with_option
@backend_option
@json_option
def check(files: tuple[str, ...], code: str | None, *, as_json: bool, **options: Any) -> int:
    """Check the scripts one after another and return the exit status."""
    if bool(files) == (code is not None):
        raise click.UsageError("give either FILE, - for standard input, or -c CODE")
    if as_json and len(files) > 1:
        raise click.UsageError("--json prints one object, so it takes one FILE")
    for folder in filter(os.path.isdir, files):
        raise JobError(f"{folder}: is a folder; name scripts")
    from stockade.advice.check import check as checked

    requirements = list(options.pop("requirements")) or None
    count = 0
    for name in files or ("-c",):
        source = os.fsencode(code) if code is not None else sys.stdin.buffer.read() if name == "-" else Path(name)
        found = checked(source, requirements=requirements, **options)
        _show(name, found, as_json=as_json)
        count += len(found)
    if not as_json:
        say(_NOTE if count else f"nothing found; {_NOTE}")
    return ADVICE_FOUND if count else 0


def _show(name: str, found: list[Advice], *, as_json: bool) -> None:
    if as_json:
        print_json({"file": name, "advice": [advice.to_dict() for advice in found], "note": _NOTE})
        return
    for advice in found:
        click.echo(printable(f"{name}:{advice}"))
