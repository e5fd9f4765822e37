"""``stockade audit`` checks and shows an audit log; ``--audit`` and ``--label`` of other commands write one."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

from stockade.cli.mistakes import Group
from stockade.cli.options import assignments
from stockade.cli.reporting import Command, json_option, print_json, printable
from stockade.core.errors import JobError

_F = TypeVar("_F", bound=Callable[..., Any])
_BROKEN = _ALERTED = 1
_COLUMNS = ("at", "event", "run", "labels", "kind", "backend", "outcome", "limit", "message")
_OPTIONS = (
    click.option(
        "--audit",
        "audit_log",
        metavar="FILE",
        envvar="STOCKADE_AUDIT",
        help="Write who ran what, under which policy and with which end, to the log FILE. Without that record nothing "
        "runs. The variable STOCKADE_AUDIT names it as well.",
    ),
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="NAME=VALUE",
        callback=assignments("label", "user=alice"),
        help="Say something of the run for the audit log. May be repeated.",
    ),
)
_EXAMPLES = """\b
Examples:
  stockade run --audit audit.jsonl --label user=alice -c 'print(1)'
  stockade audit verify audit.jsonl
  stockade audit show audit.jsonl --label user=alice
  stockade audit alerts audit.jsonl --by user
  stockade audit export audit.jsonl > audit.csv
"""


def audit_options(command: _F) -> _F:
    """Add ``--audit`` and ``--label``."""
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), command)


def observe(options: Mapping[str, Any]) -> None:
    """Let every run of this process write to the log that ``--audit`` names."""
    if options["audit_log"] is not None or options["labels"]:
        from stockade.observe.configure import configure

        configure(audit=options["audit_log"], labels=dict(options["labels"]))


@click.group(cls=Group, epilog=_EXAMPLES)
def audit() -> None:
    """Check or show an audit log."""


@audit.command("verify", cls=Command)
@click.argument("log")
@click.option("--head", metavar="SHA256", help="Also require that a record has this digest, which you noted earlier.")
@json_option
def _verify(log: str, head: str | None, as_json: bool) -> int:
    """Check that no line of LOG was changed, moved or removed.

    Lines that are cut off the end leave a valid log. Note the digest of the last line elsewhere, and pass it later as
    --head: then they show. The exit status is 1 if the log is broken.
    """
    from stockade.observe import chain

    try:
        with _opened(log) as files:
            found = chain.verify(files, head)
    except chain.AuditError as error:
        if as_json:
            print_json({"valid": False, "message": str(error)})
        else:
            click.echo(f"broken: {printable(str(error))}")
        return _BROKEN
    if as_json:
        print_json({"valid": True, **vars(found)})
        return 0
    click.echo(f"valid: {found.records} records, {found.torn} torn lines; {len(found.unfinished)} runs without an end")
    click.echo(f"head: {found.head}")
    return 0


@audit.command("show", cls=Command, short_help="Show the starts and ends of runs in LOG.")
@click.argument("log")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", callback=assignments("label", "user=alice"))
@click.option("--run", "run_id", metavar="ID", help="Only the records of this run.")
@json_option
def _show(log: str, labels: Sequence[tuple[str, str]], run_id: str | None, as_json: bool) -> int:
    """Show the starts and ends of runs in LOG, after a check of its chain. --json prints whole records, one a line."""
    for fields in _selected(log, dict(labels), run_id):
        if as_json:
            print_json(fields)
        else:
            click.echo(_line(fields))
    return 0


@audit.command("export", cls=Command, short_help="Print the starts and ends of runs in LOG as CSV.")
@click.argument("log")
def _export(log: str) -> int:
    """Print the starts and ends of runs in LOG as CSV, after a check of its chain."""
    writer = csv.writer(sys.stdout)
    writer.writerow(_COLUMNS)
    for fields in _selected(log, {}, None):
        writer.writerow([_csv_field(fields.get(name, "")) for name in _COLUMNS])
    return 0


@audit.command("alerts", cls=Command, short_help="Show what the rules of a monitor find in LOG.")
@click.argument("log")
@click.option(
    "--by", "label", metavar="NAME", default="user", show_default=True,
    help="The label that says who a run is for; runs with different values are looked at apart.",
)  # fmt: skip
@json_option
def _alerts(log: str, label: str, as_json: bool) -> int:
    """Show what the rules of stockade.Monitor find in the runs of LOG, after a check of its chain.

    --json prints one alert a line. The exit status is 1 if there are alerts.
    """
    from stockade.observe.monitor import Judge
    from stockade.observe.records import Ended, time_of

    judge, status = Judge(label), 0
    for fields in _selected(log, {}, None):
        if fields["event"] == "start":
            continue
        for alert in judge.judge(Ended.of(fields, time_of(fields))):
            status = _ALERTED
            if as_json:
                print_json(alert.as_json())
            else:
                click.echo(printable(f"{alert.at}  {alert.run}  {alert}"))
    return status


def _selected(log: str, labels: Mapping[str, str], run_id: str | None) -> Iterator[dict[str, Any]]:
    from stockade.observe import chain

    with _opened(log) as files:
        chain.verify(files, None)
    with _opened(log) as files:
        for _, fields, _ in chain.records(files):
            if fields is None or fields["event"] not in chain.OF_RUNS:
                continue
            if run_id in (None, fields["run"]) and labels.items() <= fields["labels"].items():
                yield fields


@contextmanager
def _opened(log: str) -> Iterator[list[tuple[str, BinaryIO]]]:
    """Open all parts of a log in order."""
    path = Path(log)
    numbers = sorted(int(end) for each in path.parent.glob(f"{path.name}.*") if (end := each.suffix[1:]).isdecimal())
    with ExitStack() as stack:
        try:
            parts = [path.with_name(f"{path.name}.{number}") for number in numbers]
            yield [(str(each), stack.enter_context(each.open("rb"))) for each in (*parts, path)]
        except OSError as error:
            raise JobError(f"{error.filename}: {error.strerror}") from None


def _line(fields: Mapping[str, Any]) -> str:
    labels = " ".join(f"{name}={value}" for name, value in fields["labels"].items())
    what = fields.get("program") or fields.get("language") or ""
    end = " ".join(filter(None, (fields.get("outcome"), fields.get("limit"), fields.get("message"), what)))
    return printable(f"{fields['at']}  {fields['event']:6}  {fields['run']}  {labels}  {end}")


def _csv_field(value: Any) -> str:
    """Return a value for CSV. A spreadsheet would take a text that begins with a sign for a formula."""
    pairs = value.items() if isinstance(value, Mapping) else ()
    text = " ".join(f"{name}={each}" for name, each in pairs) or ("" if value in (None, {}) else str(value))
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
