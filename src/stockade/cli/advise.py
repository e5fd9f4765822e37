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

_HELP = """Read a Python script, without running it, and name what deserves a look.

The advice is about loops without an exit, regular expressions that backtrack badly, calls that start programs, use the
network or run data as code, and imports that the sandbox does not have. Each line is FILE:LINE:COLUMN: KIND: MESSAGE.

This is advice, not a wall. Code can hide anything from it. Only the sandbox holds.

The script is parsed in a sandbox of its own, by the interpreter that would run it. The exit status is 0 without advice,
1 with advice, 2 for bad usage or a script that cannot be checked, 125 if no sandbox could be set up.
"""
_EXAMPLES = """\b
Examples:
  stockade check script.py
  stockade check --json -c 'while True: pass'
  stockade check --packages .venv script.py && stockade run --packages .venv script.py
  stockade check - < script.py
"""
ADVICE_FOUND = 1
_NOTE = "this is advice, not a wall: code can hide anything from it, and only the sandbox holds"


@click.command("check", cls=Command, help=_HELP, epilog=_EXAMPLES)
@click.argument("file", required=False)
@click.option("-c", "code", metavar="CODE", help="Check this code.")
@click.option(
    "--language", metavar="NAME", help="Language of the code; only python can be checked. Default: by suffix."
)
@click.option("--interpreter", metavar="PATH", help="Interpreter, or virtual environment, that would run the code.")
@click.option("--packages", metavar="PATH", help="Virtual environment with the packages that the code imports.")
@with_option
@backend_option
@json_option
def check(file: str | None, code: str | None, *, as_json: bool, **options: Any) -> int:
    """Check the script and return the exit status."""
    if (file is None) == (code is None):
        raise click.UsageError("give either FILE, - for standard input, or -c CODE")
    from stockade.advice.check import check as checked

    source: bytes | Path
    if code is not None:
        name, source = "-c", os.fsencode(code)
    elif file == "-":
        name, source = "-", sys.stdin.buffer.read()
    elif Path(str(file)).is_dir():
        raise JobError(f"{file}: is a folder; name a script")
    else:
        name, source = str(file), Path(str(file))
    requirements = list(options.pop("requirements")) or None
    found = checked(source, requirements=requirements, **options)
    _show(name, found, as_json=as_json)
    return ADVICE_FOUND if found else 0


def _show(name: str, found: list[Advice], *, as_json: bool) -> None:
    if as_json:
        print_json({"file": name, "advice": [advice.to_dict() for advice in found], "note": _NOTE})
        return
    for advice in found:
        click.echo(printable(f"{name}:{advice}"))
    say(_NOTE if found else f"nothing found; {_NOTE}")
