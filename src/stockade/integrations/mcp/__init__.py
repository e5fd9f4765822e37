"""An MCP server whose tools run code in a sandbox: ``stockade mcp``, or ``serve`` from Python.

``pip install 'stockade[mcp]'``. ``make_server`` returns a server without a transport, such as for a test in memory.
"""

from __future__ import annotations

try:
    import mcp.server.mcpserver  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; install it with: pip install 'stockade[mcp]'", name=error.name) from error

from stockade.integrations.mcp.places import DEFAULT_LIMITS, Keeping, Living, Place, Single, choose
from stockade.integrations.mcp.server import make_server, serve

__all__ = ["DEFAULT_LIMITS", "Keeping", "Living", "Place", "Single", "choose", "make_server", "serve"]
