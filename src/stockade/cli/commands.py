"""The command ``stockade`` and its subcommands."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from stockade import __version__
from stockade.cli import reporting
from stockade.cli.advise import check
from stockade.cli.attack import attack
from stockade.cli.bench import bench
from stockade.cli.completion import VARIABLE, completion, prepare
from stockade.cli.doctor import doctor
from stockade.cli.estimate import estimate
from stockade.cli.eval import evaluate
from stockade.cli.packages import packages
from stockade.cli.plan import plan
from stockade.cli.policy import policy
from stockade.cli.run import run
from stockade.cli.schema import schema

_HELP = "Run code nobody vouches for: every resource bounded, the host out of reach, a verdict that can be trusted."
_EXAMPLES = """\b
Examples:
  stockade run script.py one two
  stockade run -c 'print(sum(range(10)))'
  stockade run --limit memory=64MiB --limit wall_time=5s -- sort big.txt
  echo 'some text' | stockade run -c 'print(input().upper())'
  stockade check script.py
  stockade eval programs.jsonl -o verdicts.jsonl
  stockade plan --limit cpu_rate=0.5
  stockade doctor
  stockade attack --all
  stockade bench
  stockade schema
  stockade COMMAND --help
"""


@click.group(help=_HELP, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stockade", message="%(prog)s %(version)s")
def stockade() -> None:
    """Group all commands."""


for _command in (run, check, plan, doctor, policy, estimate, evaluate, attack, bench, packages, schema, completion):
    stockade.add_command(_command)


def execute(words: Sequence[str]) -> int:
    """Run the command line ``words`` and return the exit status."""
    if VARIABLE in os.environ:
        prepare(stockade)
    try:
        status = stockade.main(list(words), prog_name="stockade", standalone_mode=False)
    except click.ClickException as error:
        return reporting.usage_error(error, words)
    except click.Abort:
        return reporting.INTERRUPTED
    return status if isinstance(status, int) else 0
