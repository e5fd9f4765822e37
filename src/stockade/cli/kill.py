"""``stockade kill``: end runs of other processes, and refuse new ones."""

from __future__ import annotations

import time
from typing import Any

import click

from stockade.cli.options import assignments
from stockade.cli.reporting import Command, json_option, print_json, say
from stockade.core.errors import JobError

_HELP = """End runs, whichever process started them, and refuse new ones until --lift.

Every run of this account that the switch names ends within a second, with the outcome 'cancelled'; a new one is
refused. As root, the switch holds for all accounts of the machine. It is a file, which --show prints; an operator may
write it by hand, one line for each --all, --label, --sandbox or --since.

The exit status is 0, or 1 from --show if the switch is on.
"""
_EXAMPLES = """\b
Examples:
  stockade kill --all
  stockade kill --label user=eve
  stockade kill --since 10min
  stockade kill --show
  stockade kill --lift
"""
_ON = 1


@click.command("kill", cls=Command, help=_HELP, epilog=_EXAMPLES)
@click.option("--all", "everything", is_flag=True, help="Every run.")
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", callback=assignments("label", "user=eve"),
    help="Runs with this label. May be repeated; each one counts.",
)  # fmt: skip
@click.option("--sandbox", "sandboxes", multiple=True, metavar="ID", help="A living sandbox, by its id.")
@click.option("--since", metavar="TIME", help="Runs that began so long ago or later: 90s, 10min.")
@click.option("--reason", metavar="TEXT", help="A comment for those who look at the switch.")
@click.option("--show", is_flag=True, help="Print the switch.")
@click.option("--lift", is_flag=True, help="Remove the switch.")
@json_option
def kill(show: bool, lift: bool, as_json: bool, **options: Any) -> int:
    """Change or show the switch and return the exit status."""
    from stockade.observe import switch

    added = switch.lines_for(
        everything=options["everything"],
        labels=options["labels"],
        sandboxes=options["sandboxes"],
        since=None if options["since"] is None else time.time() - _seconds(options["since"]),
    )
    if show + lift + bool(added) != 1:
        raise click.UsageError("give --all, --label, --sandbox or --since; or --show, or --lift")
    if lift:
        switch.lift()
    elif added:
        switch.add(added, options["reason"])
    found, path = switch.lines(), switch.path()
    if as_json:
        print_json({"on": bool(found), "file": str(path), "lines": found})
    elif show:
        click.echo("\n".join(switch.lines(comments=True)) if found else "off")
    else:
        say(f"the kill switch is {'on' if found else 'off'}: {path}")
    return _ON if show and found else 0


def _seconds(text: str) -> float:
    from stockade.core.units import parse_seconds

    try:
        seconds = parse_seconds(text)
    except (TypeError, ValueError) as error:
        raise JobError(f"--since {text}: {error}") from None
    if seconds == "unlimited":
        raise JobError(f"--since {text}: a time such as 10min; --all means every run")
    return seconds
