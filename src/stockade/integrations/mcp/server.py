"""The MCP server over the tools of one place."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from stockade.integrations.mcp.places import Keeping, Single
from stockade.integrations.mcp.tools import LivingTools, SingleTools

_VERSION = version("stockade")  # read once: the front of a service can read no file later
_INSTRUCTIONS = "Code runs in a sandbox with a limit on every resource. The tool plan shows what is guaranteed. "
_KEPT = (
    "Files, variables of run_python and background processes last from call to call, until reset, or until nothing has "
    "happened for some minutes."
)
_FRESH = "Each call runs in a fresh sandbox, so put all that belongs together into one call."
_LOOKS = ("read_file", "list_files", "plan")


def make_server(place: Keeping | Single) -> MCPServer[Any]:
    """Return a server whose tools run code in ``place``."""
    text = _INSTRUCTIONS + (_KEPT if place.keeps_state else _FRESH)
    server: MCPServer[Any] = MCPServer("stockade", version=_VERSION, instructions=text, log_level="WARNING")
    tools = LivingTools(place) if isinstance(place, Keeping) else SingleTools(place)
    for name in tools.NAMES:
        looks = name in _LOOKS
        opens = place.policy.network != "none" and name.startswith("run_")
        marks = ToolAnnotations(
            read_only_hint=looks, destructive_hint=not looks, idempotent_hint=looks, open_world_hint=opens
        )
        server.add_tool(getattr(tools, name), annotations=marks)
    return server


def serve(place: Keeping | Single) -> None:
    """Serve over standard input and output until the client closes them. Then end everything that runs."""

    async def run() -> None:
        try:
            await make_server(place).run_stdio_async()
        finally:
            await place.close()

    anyio.run(run)
