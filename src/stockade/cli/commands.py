"""The command ``stockade`` and its subcommands."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from stockade import __version__
from stockade.cli import reporting
from stockade.cli.mistakes import Group
from stockade.core.loading import load

_HELP = "Run code nobody vouches for: every resource bounded, the host out of reach, a verdict that can be trusted."
_EXAMPLES = """\b
Examples:
  stockade run script.py one two
  stockade run -c 'print(sum(range(10)))'
  stockade run --limit memory=64MiB --limit wall_time=5s -- sort big.txt
  echo 'some text' | stockade run -c 'print(input().upper())'
  stockade repl
  stockade shell --workspace . --access overlay
  stockade sandbox create build
  stockade check script.py
  stockade eval programs.jsonl -o verdicts.jsonl
  stockade plan --limit cpu_rate=0.5
  stockade doctor
  stockade attack --all
  stockade audit verify audit.jsonl
  stockade kill --label user=eve
  stockade serve --data ./service
  stockade mcp --workspace . --access overlay
  stockade bench
  stockade schema
  stockade COMMAND --help
"""


_COMMANDS = {
    "run": "run:run",
    "repl": "repl:repl",
    "shell": "shell:shell",
    "sandbox": "sandbox:sandbox",
    "check": "advise:check",
    "plan": "plan:plan",
    "doctor": "doctor:doctor",
    "kill": "kill:kill",
    "policy": "policy:policy",
    "estimate": "estimate:estimate",
    "eval": "eval:evaluate",
    "attack": "attack:attack",
    "audit": "audit:audit",
    "bench": "bench:bench",
    "images": "images:images",
    "packages": "packages:packages",
    "schema": "schema:schema",
    "serve": "serve:serve",
    "mcp": "mcp:mcp",
    "keys": "serve:keys",
    "completion": "completion:completion",
}
"""Each command, and the module and function that define it. A module is imported when its command is used."""
_SHORT = {
    "attack": "Attack the sandboxes of this machine, and print what held.",
    "bench": "Measure what a small Python run costs on this machine.",
    "check": "Name what deserves a look in Python scripts.",
    "completion": "Print the script that completes these commands in a shell.",
    "doctor": "Show what this host offers, and how to get what is missing.",
    "eval": "Judge many programs, each in a sandbox of its own.",
    "kill": "End runs of any process, and refuse new ones.",
    "mcp": "Serve tools that run code in a sandbox to an MCP client.",
    "packages": "List or remove the packages stored for --with.",
    "plan": "Show what would hold each guarantee here, and run nothing.",
    "repl": "Type code into an interpreter that lives in a sandbox.",
}
"""What the list of commands says where the first sentence of a command's help is longer than a line of 80 columns."""
_COMPLETES = "_STOCKADE_COMPLETE"
"""The variable of ``cli.completion``, which is slow to import."""


class _Commands(Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, imported on first use."""
        if cmd_name not in self.commands and cmd_name in _COMMANDS:
            command = load(f"stockade.cli.{_COMMANDS[cmd_name]}")
            command.short_help = _SHORT.get(cmd_name)
            self.add_command(command, cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names. The words ``help`` and ``version`` are answered by options."""
        if args[0] == "version":
            raise click.UsageError("No such command 'version'. Write 'stockade --version'.", ctx)
        if args[0] == "help":
            of = next((word for word in args[1:] if word in _COMMANDS), "")
            message = f"No such command 'help'. Write 'stockade {of + ' ' if of else ''}--help'."
            raise click.UsageError(message, ctx)
        return super().resolve_command(ctx, args)

    def forgotten(self, ctx: click.Context, word: str) -> str:  # noqa: ARG002
        """Return the command line that runs ``word``, if it is a script."""
        is_file = os.path.isfile(word)  # noqa: PTH113 - Path.is_file raises for a name that is too long
        return f"stockade run {word}" if is_file else ""

    def offered(self, ctx: click.Context) -> str:  # noqa: ARG002
        """Return nothing: the list of all commands is longer than an error should be."""
        return ""

    def load_all(self) -> None:
        """Import every command."""
        for name in _COMMANDS:
            self.get_command(click.Context(self), name)


@click.group(cls=_Commands, help=_HELP, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stockade", message="%(prog)s %(version)s")
def stockade() -> None:
    """Group all commands."""


def execute(words: Sequence[str]) -> int:
    """Run the command line ``words`` and return the exit status."""
    if _COMPLETES in os.environ:
        stockade.load_all()
        load("stockade.cli.completion:prepare")(stockade)
    try:
        status = stockade.main(list(words), prog_name="stockade", standalone_mode=False)
    except click.ClickException as error:
        return reporting.usage_error(error, words)
    except click.Abort:
        return reporting.INTERRUPTED
    return status if isinstance(status, int) else 0
