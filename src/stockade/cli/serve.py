"""``stockade serve`` and ``stockade keys``: the HTTP service, and who may use it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stockade.cli.mistakes import Group
from stockade.cli.options import backend_option, trust_option
from stockade.cli.reporting import INTERRUPTED, Command, json_option, print_json
from stockade.core.errors import JobError, SetupError

if TYPE_CHECKING:
    from stockade.service.keys import Keys
    from stockade.service.settings import Settings

_HELP = """Serve an HTTP API that runs code in sandboxes.

The first start makes a key and prints it once. Requests carry it as 'Authorization: Bearer KEY'. Runs wait in a
database in --data, and outlive any process of the service; /openapi.json describes the API.

Ctrl-C ends the service: what runs is ended, and runs again after the next start.

The exit status is 130 after Ctrl-C, 0 after SIGTERM, 2 for bad usage, and 125 if no sandbox can be set up here or the
port is taken.
"""
_EXAMPLES = """\b
Examples:
  stockade serve --data ./service
  stockade serve --data ./service --port 8080 --jobs 8
  stockade serve --data ./service --policy policy.toml --ceiling ceiling.toml
  curl -H "Authorization: Bearer $KEY" --json '{"source": "print(42)"}' 'http://127.0.0.1:8080/v1/runs?wait=30'
"""
_KEY_EXAMPLES = """\b
Examples:
  stockade keys add alice --data ./service
  stockade keys add monitor --operator --data ./service
  stockade keys list --data ./service
  stockade keys remove alice --data ./service
"""
_data = click.option("--data", metavar="DIR", required=True, help="The folder of the service; it is made if missing.")


@click.command("serve", cls=Command, help=_HELP, epilog=_EXAMPLES)
@_data
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True,
    help="Listen here. An address that others can reach needs a key first, and a proxy with TLS in front.",
)  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 is any free one.")
@click.option("--jobs", type=click.IntRange(1, 4096), metavar="N", help="Runs at a time; default: one a processor.")
@click.option("--policy", "policy_file", metavar="FILE", help="The policy of every run, on which requests set limits.")
@click.option(
    "--ceiling", metavar="FILE",
    help="The most that a request may ask for, field by field over the built-in one: 5 minutes, 1 GiB, no network.",
)  # fmt: skip
@backend_option
@trust_option
@click.option(
    "--queue", "queued", type=click.IntRange(1), default=10_000, show_default=True, help="Runs that may wait."
)
@click.option(
    "--queue-per-key", "queued_of_a_key", type=click.IntRange(1), default=1_000, show_default=True,
    help="Runs of one key that may wait.",
)  # fmt: skip
@click.option(
    "--sandboxes", type=click.IntRange(0), default=50, show_default=True, help="Living sandboxes that may be open."
)
@click.option(
    "--sandboxes-per-key", "sandboxes_of_a_key", type=click.IntRange(0), default=10, show_default=True,
    help="Living sandboxes of one key that may be open.",
)  # fmt: skip
@click.option(
    "--sandbox-lifetime", metavar="TIME", default="1h", show_default=True, help="How long a sandbox may live at most."
)
@click.option("--keep", metavar="TIME", default="24h", show_default=True, help="How long finished runs are kept.")
@click.option("--audit", metavar="FILE", help="Write who ran what to the audit log FILE; see 'stockade audit'.")
def serve(host: str, port: int, **options: Any) -> int:
    """Serve until a signal and return the exit status."""
    _need_server()
    from stockade.service import server

    number = server.serve(_settings(options), host, port, click.echo)
    return INTERRUPTED if number == signal.SIGINT else 0


def _settings(options: dict[str, Any]) -> Settings:
    from stockade.service.settings import DEFAULT_CEILING, Settings, ceiling_from, fields_from

    return Settings(
        data=Path(options["data"]).absolute(),
        jobs=options["jobs"] or len(os.sched_getaffinity(0)),
        policy={} if options["policy_file"] is None else fields_from(Path(options["policy_file"])),
        ceiling=DEFAULT_CEILING if options["ceiling"] is None else ceiling_from(Path(options["ceiling"])),
        backend=options["backend"],
        trust=options["trust"] or "semi-trusted",
        audit=None if options["audit"] is None else str(Path(options["audit"]).absolute()),
        queued_runs=options["queued"],
        queued_runs_of_a_key=options["queued_of_a_key"],
        sandboxes=options["sandboxes"],
        sandboxes_of_a_key=options["sandboxes_of_a_key"],
        sandbox_lifetime=_time("--sandbox-lifetime", options["sandbox_lifetime"]),
        keep=_time("--keep", options["keep"]),
    )


def _time(option: str, text: str) -> float:
    from stockade.core.units import parse_seconds

    try:
        seconds = parse_seconds(text)
    except (TypeError, ValueError) as error:
        raise JobError(f"{option} {text}: {error}") from None
    if seconds == "unlimited":
        raise JobError(f"{option} unlimited: the machine is not; give a time, such as 7d or 24h")
    return seconds


@click.group(cls=Group, epilog=_KEY_EXAMPLES)
def keys() -> None:
    """Make, list or remove the keys of a service."""


@keys.command("add", cls=Command)
@click.argument("name")
@_data
@click.option("--operator", is_flag=True, help="The key may also read /metrics and use the kill switch.")
@json_option
def _add(name: str, data: str, operator: bool, as_json: bool) -> int:
    """Make a key and print it. It cannot be shown again."""
    key = _keys(data).add(name, operator=operator)
    if as_json:
        print_json({"name": name, "operator": operator, "key": key})
    else:
        click.echo(key)
    return 0


@keys.command("list", cls=Command)
@_data
@json_option
def _list(data: str, as_json: bool) -> int:
    """List the names of the keys."""
    for each in _keys(data).list():
        if as_json:
            print_json({"name": each.name, "operator": each.operator})
        else:
            click.echo(f"{each.name}{'  operator' if each.operator else ''}")
    return 0


@keys.command("remove", cls=Command)
@click.argument("name")
@_data
def _remove(name: str, data: str) -> int:
    """Remove a key at once, with its runs and their results. Runs of it that are active end within the lease."""
    _keys(data).remove(name)
    return 0


def _keys(data: str) -> Keys:
    _need_server()
    from stockade.service.database import Database
    from stockade.service.keys import Keys
    from stockade.service.server import prepared

    folder = Path(data).absolute()
    if not folder.is_dir():  # most likely a wrong name, and a key that no server knows
        raise JobError(
            f"--data {data}: no such folder; name the folder of 'stockade serve', which makes it at its start"
        )
    os.umask(0o077)
    return Keys(Database(prepared(folder)))


def _need_server() -> None:
    try:
        import fastapi  # noqa: F401
        import httptools  # noqa: F401
        import prometheus_client  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
        import wsproto  # noqa: F401
    except ImportError as error:
        raise SetupError(f"the service needs more packages ({error}): pip install 'stockade[server]'") from None
