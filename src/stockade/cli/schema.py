"""``stockade schema``: print the JSON Schema of a format that stockade writes."""

from __future__ import annotations

import click

from stockade.cli.reporting import Command, print_json

_NAMES = ("result", "result-dict", "error")  # those of runs.schemas, which is slow to import
_HELP = """Print the JSON Schema of a format that stockade writes.

\b
  result        an object of 'stockade run --json' and --result-file (the default)
  result-dict   the data of Result.to_dict(), bytes included
  error         an error that a command prints with --json
"""
_EXAMPLES = """\b
Examples:
  stockade schema
  stockade schema error > error.schema.json
"""


@click.command("schema", cls=Command, help=_HELP, epilog=_EXAMPLES)
@click.argument("name", type=click.Choice(_NAMES), default="result")
def schema(name: str) -> int:
    """Print the schema and return the exit status."""
    from stockade.runs.schemas import SCHEMAS

    print_json(SCHEMAS[name](), indent=2)
    return 0
