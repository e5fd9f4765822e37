"""``stockade policy``: print the schema, the profiles or the policy that options make, and check a file."""

from __future__ import annotations

from typing import Any

import click

from stockade.cli import table
from stockade.cli.mistakes import Group
from stockade.cli.options import policy_options, resolved_from
from stockade.cli.reporting import BAD_USAGE, Command, json_option, print_json, printable

_GROUP_EXAMPLES = """\b
Examples:
  stockade policy profiles
  stockade policy show --profile strict --limit memory=128MiB > policy.toml
  stockade policy check policy.toml
  stockade policy schema > policy.schema.json
"""
_SHOW = """Print the policy that all sources make, and the origin of each field, as TOML or as JSON.

Sources are merged field by field, and a later one wins: --profile, --policy, environment variables, the other options.
Finally the ceilings apply, --ceiling and /etc/stockade/policy.toml: they lower figures above them and refuse paths
outside of them. The output is itself a policy file.

STOCKADE_PROFILE and STOCKADE_POLICY set the options of that name. A limit is STOCKADE_LIMIT_MEMORY, any other field
STOCKADE_ and its name: STOCKADE_NETWORK, STOCKADE_FILESYSTEM_READ=/srv:/data, STOCKADE_ACCEPT_SWAP. An unknown name
is refused.
"""
_SHOW_EXAMPLES = """\b
Examples:
  stockade policy show
  stockade policy show --profile strict
  stockade policy show --policy policy.toml --limit wall_time=5s --json
  STOCKADE_LIMIT_MEMORY=64MiB stockade policy show --read ./data > policy.toml
"""
_PROFILES_EXAMPLES = """\b
Examples:
  stockade policy profiles
  stockade policy profiles --json
"""
_CHECK_EXAMPLES = """\b
Examples:
  stockade policy check policy.toml
  stockade policy check --json policy.json
"""
_SCHEMA_EXAMPLES = """\b
Examples:
  stockade policy schema > policy.schema.json
"""


@click.group(cls=Group, help="Show, check and describe policies.", epilog=_GROUP_EXAMPLES)
def policy() -> None:
    """Group the commands about policies."""


@policy.command("schema", cls=Command, epilog=_SCHEMA_EXAMPLES, help="Print the JSON schema of a policy file.")
@click.option("--json", "as_json", is_flag=True, help="Print the schema on one line.")
def schema(as_json: bool) -> int:
    """Print the schema."""
    from stockade.policy.model import Policy

    print_json(Policy.model_json_schema(), indent=None if as_json else 2)
    return 0


@policy.command(
    "show",
    cls=Command,
    epilog=_SHOW_EXAMPLES,
    help=_SHOW,
    short_help="Print the policy in force, and each field's origin.",
)
@policy_options
@json_option
def show(as_json: bool, **options: Any) -> int:
    """Print the policy and the origins."""
    found = resolved_from(options)
    if as_json:
        print_json({"policy": found.policy.model_dump(mode="json"), "origins": found.origins})
        return 0
    from stockade.cli.toml import policy_as_toml

    click.echo(policy_as_toml(found), nl=False)
    return 0


@policy.command(
    "profiles",
    cls=Command,
    epilog=_PROFILES_EXAMPLES,
    help="Show the profiles: their figures, notes and purposes.",
)
@json_option
def profiles(as_json: bool) -> int:
    """Print the profiles."""
    from stockade.cli import profiles as described

    if as_json:
        print_json(described.plain())
        return 0
    table.show(described.HEADER, described.rows())
    click.echo("")
    for number, (field, note) in enumerate(described.notes(), 1):
        click.echo(f"[{number}] {field}: {note}")
    click.echo("")
    table.show(("profile", "for"), described.purposes())
    return 0


@policy.command(
    "check",
    cls=Command,
    epilog=_CHECK_EXAMPLES,
    help="Print every mistake in a policy file, with line and column; the exit status is 2 if there are any.",
    short_help="Print every mistake in a policy file, with line and column.",
)
@click.argument("file")
@json_option
def check(as_json: bool, file: str) -> int:
    """Print each mistake with its position, field, value and reason."""
    from stockade.cli.check import mistakes

    found = mistakes(file)
    if as_json:
        error = {"error": "PolicyError", "message": "; ".join(map(str, found))} if found else {}
        print_json({"file": file, "ok": not found, "problems": [each.as_json() for each in found]} | error)
    else:
        for line in found or ("no mistakes",):
            click.echo(printable(f"{file}:{line}" if found else f"{file}: {line}"))
    return BAD_USAGE if found else 0
