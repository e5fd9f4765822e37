"""The tools of ``stockade mcp`` over HTTP, at ``/mcp`` of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stockade.service.errors import Refused

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from stockade.service.state import State

PATH = "/mcp"
_SDK = ("mcp", "mcp_types", "sse_starlette")


def application(state: State) -> ASGIApp:
    """Return the application of ``PATH``. Without the SDK, it refuses every request."""
    try:
        from stockade.service.mcp.endpoint import Endpoint
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _SDK:
            raise
        return _absent
    return Endpoint(state)


async def _absent(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise Refused(501, "NotInstalled", "this service has no MCP; its operator installs it: pip install 'stockade[mcp]'")
