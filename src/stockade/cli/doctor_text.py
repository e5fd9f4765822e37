"""The facilities of a host as text of 80 columns, and as a script of the commands that would add what is missing."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

import click

from stockade.cli.facilities import Facility
from stockade.cli.reporting import coloured, printable

WIDTH = 80
_IS_LANGUAGE = re.compile("language ")
_GROUPS = {
    "Namespaces: what the guest can see": re.compile(r".* namespace|all of them"),
    "Control groups: what bounds all of a run together": re.compile("cgroup (?!namespace)|no swap"),
    "Filters and identity: walls behind the namespaces": re.compile(
        "Landlock|seccomp|started by root|no supplementary"
    ),
    "A bounded way out: network.allow, secrets": re.compile("bounded way out|names for|authorities for"),
    "Languages": _IS_LANGUAGE,
}
_COMMAND = re.compile(r"(sudo|apt|apt-get) [A-Za-z0-9 _.,:=/+-]+")
"""A command that a script can run as it is: it quotes nothing and expands nothing."""
_SCRIPT = """\
#!/bin/sh
# What 'stockade doctor' would change here. stockade runs none of it: read it, and run what you want.
set -eu
"""


def show(rows: Sequence[Facility]) -> None:
    """Print the facilities in groups, and below them how to get what is missing."""
    for title, names in _GROUPS.items():
        say(f"{title}:")
        _show_group([row for row in rows if names.match(row.name)])
        click.echo("")
    ways = _ways(rows)
    if ways:
        click.echo("Missing, and how to get it ('stockade doctor --fix' prints a script):")
    for get, missing in ways.items():
        say(f"{', '.join(missing)}:", indent="  ")
        say(get, indent="      ")
    if ways:
        click.echo("")


def say(text: str, indent: str = "", hanging: str = "") -> None:
    """Print text in lines of at most ``WIDTH`` columns. A longer word stays whole, so that it can be copied."""
    wrapped = textwrap.wrap(
        printable(text), WIDTH, initial_indent=indent, subsequent_indent=indent + hanging,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    click.echo("\n".join(wrapped))


def script(rows: Sequence[Facility]) -> str:
    """Return a script with each command that would add something missing; other remedies are comments."""
    parts = [_SCRIPT]
    for get, missing in _ways(rows).items():
        first = get.partition("; or ")[0]
        parts.append(f"\n# {printable(', '.join(missing))}\n")
        parts.append(f"{first}\n" if _COMMAND.fullmatch(first) and "..." not in first else f"# {printable(get)}\n")
    return "".join(parts) if len(parts) > 1 else _SCRIPT + "\n# Nothing is missing.\n"


def _show_group(rows: Sequence[Facility]) -> None:
    """Print what is there on one line, as far as it fits, and each missing facility with what it would give."""
    there = [f"{row.name} ({row.evidence})" if _IS_LANGUAGE.match(row.name) else row.name for row in rows if row.there]
    if there:
        _show("yes", "green", ", ".join(there))
    for row in rows:
        if not row.there:
            _show("no", "red", f"{row.name}: {row.gives} ({row.evidence})")


def _show(word: str, colour: str, text: str) -> None:
    shown = click.style(word, fg=colour) if coloured() else word
    lines = textwrap.wrap(printable(text), WIDTH - 7, break_long_words=False, break_on_hyphens=False)
    click.echo(f"  {shown}{' ' * (4 - len(word))} {lines[0]}", color=True)  # coloured() has already decided
    for line in lines[1:]:
        click.echo(f"       {line}")


def _ways(rows: Sequence[Facility]) -> dict[str, list[str]]:
    """Return each way to get something missing, with what it gets."""
    ways: dict[str, list[str]] = {}
    for row in rows:
        if row.get:
            ways.setdefault(row.get, []).append(row.name)
    return ways
