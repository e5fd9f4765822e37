"""``stockade kill``: end runs of other processes, and refuse new ones."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
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
    from stockade.linux import kill_switch

    lines = _lines(options)
    if show + lift + bool(lines) != 1:
        raise click.UsageError("give --all, --label, --sandbox or --since; or --show, or --lift")
    path = Path(kill_switch.own_path(os.geteuid()))
    if lift:
        path.unlink(missing_ok=True)
    elif lines:
        _write(path, lines, options["reason"])
    found = kill_switch.read(str(path))
    if as_json:
        print_json({"on": bool(found), "file": str(path), "lines": found})
    elif show:
        click.echo("\n".join(found) if found else "off")
    else:
        say(f"the kill switch is {'on' if found else 'off'}: {path}")
    return _ON if show and found else 0


def _lines(options: Mapping[str, Any]) -> list[str]:
    lines = ["all"] if options["everything"] else []
    lines += [f"label {name}={value}" for name, value in options["labels"]]
    lines += [f"sandbox {name}" for name in options["sandboxes"]]
    if options["since"] is not None:
        lines.append(f"since {time.time() - _seconds(options['since']):.3f}")
    for line in lines:
        if not line.isprintable() or line.endswith(" "):
            raise JobError(f"kill: {line!r} has a character that no label or id has")
    return lines


def _seconds(text: str) -> float:
    from stockade.core.units import parse_seconds

    try:
        seconds = parse_seconds(text)
    except (TypeError, ValueError) as error:
        raise JobError(f"--since {text}: {error}") from None
    if seconds == "unlimited":
        raise JobError(f"--since {text}: a time such as 10min; --all means every run")
    return seconds


def _write(path: Path, lines: Sequence[str], reason: str | None) -> None:
    """Add lines to the switch, as a whole or not at all."""
    from stockade.workspace.host_files import HostFile

    path.parent.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    status = path.parent.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise JobError(f"{path.parent}: others can write there, so no switch in it would count; remove that folder")
    before = path.read_text().rstrip("\n").split("\n") if path.exists() else []
    comment = [f"# {' '.join(reason.split())}"] if reason else []
    with HostFile(path, "kill switch", follow=False) as file:
        file.write("\n".join([*before, *comment, *lines, ""]).encode())
