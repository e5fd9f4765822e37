"""``stockade mcp``: an MCP server over standard input and output, whose tools run code in a sandbox."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stockade.cli.audit import audit_options, observe
from stockade.cli.options import backend_option, policy_options, resolved_from, trust_option
from stockade.cli.packages import packages_folder, with_option
from stockade.cli.reporting import Command, say
from stockade.cli.secrets import secret_option
from stockade.core.errors import SetupError

if TYPE_CHECKING:
    from stockade.policy.model import Policy
    from stockade.runs.secret import Secret

_HELP = """Serve tools that run code in a sandbox to an MCP client, over standard input and output.

The client starts this command, and its model gets the tools run_python, run_command, write_file, read_file, list_files,
reset and plan. Files, variables and background processes last from call to call. Where the host can keep no sandbox,
each call runs in a fresh one. All of it ends when the client closes its end, or dies.

Options describe the sandbox as they do for 'stockade run'. Without a profile or a file, its limits are those of an
agent's work: 1 GiB of memory, 512 MiB of disk, 128 processes, 10 minutes a call. There is no network.
"""
_EXAMPLES = """\b
Examples:
  stockade mcp
  stockade mcp --workspace . --access overlay
  stockade mcp --with pandas --with matplotlib --limit memory=4GiB
  stockade mcp --policy policy.toml --allow api.example.com:443

\b
In a client's configuration:
  {"mcpServers": {"sandbox": {"command": "stockade", "args": ["mcp"]}}}
"""


@click.command("mcp", cls=Command, help=_HELP, epilog=_EXAMPLES)
@policy_options
@backend_option
@trust_option
@secret_option
@audit_options
@click.option("--packages", metavar="PATH", help="Folder of packages, as for 'stockade run'.")
@with_option
@click.option(
    "--idle", type=float, default=600.0, metavar="SECONDS", help="End the sandbox after so long without use; 600."
)
def mcp(
    *,
    packages: str | None,
    requirements: tuple[str, ...],
    backend: str | None,
    trust: str | None,
    secrets: dict[str, Secret],
    idle: float,
    **options: Any,
) -> int:
    """Serve until the client is gone and return the exit status."""
    try:
        from stockade.integrations import mcp as server
    except ModuleNotFoundError as error:
        raise SetupError(str(error)) from None
    observe(options)
    policy = _policy(options, trust, server.DEFAULT_LIMITS)
    own: dict[str, Any] = {"packages": packages_folder(packages, requirements, policy), "secrets": secrets or None}
    ceiling = None if options["ceiling"] is None else Path(options["ceiling"])
    place = server.choose(policy, backend=backend, trust=trust, ceiling=ceiling, idle_timeout=idle, **own)
    if not place.keeps_state:
        say("no sandbox can live here under this policy, so each call runs in a fresh one; 'stockade plan' says why")
    if sys.stdin.isatty():
        say("waiting for an MCP client on standard input; Ctrl-C ends")
    server.serve(place)
    return 0


def _policy(options: dict[str, Any], trust: str | None, limits: Any) -> Policy:
    """Return the policy, with ``limits`` where no source sets them and no profile is named."""
    from stockade.policy.resolve import with_layers

    found = resolved_from(options, trust)
    if any(origin.startswith("profile ") for origin in found.origins.values()):
        return found.policy
    unset = {name: value for name, value in limits.items() if found.origins[f"limits.{name}"] == "default"}
    return with_layers(found.policy, {"default of stockade mcp": {"limits": unset}})
