"""``stockade policy``: the schema of policies, the policy that options make, and what is wrong in a file."""

from __future__ import annotations

from typing import Any

import click

from stockade._errors import PolicyError
from stockade.cli.options import policy_from, policy_options
from stockade.cli.reporting import BAD_USAGE, Command, json_option, print_json, printable

_GROUP_EXAMPLES = """\b
Examples:
  stockade policy show --limit memory=64MiB > policy.toml
  stockade policy check policy.toml
  stockade policy schema > policy.schema.json
"""
_SHOW_EXAMPLES = """\b
Examples:
  stockade policy show
  stockade policy show --policy policy.toml --limit wall_time=5s --json
  stockade policy show --read ./data > policy.toml
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


@click.group(help="Show, check and describe policies.", epilog=_GROUP_EXAMPLES)
def policy() -> None:
    """Hold the commands about policies together."""


@policy.command("schema", cls=Command, epilog=_SCHEMA_EXAMPLES, help="Print the JSON schema of a policy file.")
@click.option("--json", "as_json", is_flag=True, help="On one line.")
def schema(as_json: bool) -> int:
    """Print the schema."""
    from stockade._policy import Policy

    print_json(Policy.model_json_schema(), indent=None if as_json else 2)
    return 0


@policy.command(
    "show", cls=Command, epilog=_SHOW_EXAMPLES, help="Print the policy that the options make, as TOML or as JSON."
)
@policy_options
@json_option
def show(as_json: bool, **options: Any) -> int:
    """Print the policy."""
    made = policy_from(options)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return 0
    from stockade.cli.toml import policy_as_toml

    click.echo(policy_as_toml(made), nl=False)
    return 0


@policy.command(
    "check", cls=Command, epilog=_CHECK_EXAMPLES, help="Say everything that is wrong in a policy file; 2 if anything."
)
@click.argument("file")
@json_option
def check(as_json: bool, file: str) -> int:
    """Print each mistake with field, value and reason."""
    from stockade._policy import Policy

    error = None
    try:
        Policy.load(file)
    except PolicyError as caught:
        error = caught
    if as_json:
        print_json({"file": file, "ok": error is None, "problems": []} | (error.as_json() if error else {}))
    else:
        for line in map(str, error.problems) if error else ("no mistakes",):
            click.echo(printable(f"{file}: {line}"))
    return BAD_USAGE if error else 0
