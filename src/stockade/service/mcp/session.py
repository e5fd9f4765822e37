"""An MCP session over HTTP: a server of the SDK with the tools of one place, and every way in which it ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings

from stockade.core import log
from stockade.integrations.mcp import make_server
from stockade.service.errors import Refused

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from stockade.integrations.mcp import Keeping

_HEADER = b"mcp-session-id"
_CHECKED_BEFORE = TransportSecuritySettings(enable_dns_rebinding_protection=False)


class Session:
    """A session of one key. Its id comes from the SDK: 122 random bits."""

    def __init__(self, key: int, place: Keeping, idle: float, most_bytes: int) -> None:
        """``idle`` is the seconds without a request or an open stream until its end."""
        self.key, self.id = key, ""
        self._place, self._idle = place, idle
        server = make_server(place)
        server.streamable_http_app(
            session_idle_timeout=None, max_sessions=1, max_request_body_size=most_bytes,
            transport_security=_CHECKED_BEFORE,
        )  # fmt: skip
        self._manager = server.session_manager
        self._requests, self._last = 0, 0.0
        self._ready, self._stopped = asyncio.Event(), asyncio.Event()
        self.over = asyncio.Event()
        """Set when nothing of the session is left."""

    async def run(self) -> None:
        """Serve until ``stop``, or until the session is idle. Then end its calls and its sandbox."""
        try:
            async with self._manager.run():
                self._ready.set()
                await self._wait()
        except Exception as error:
            log.error("an MCP session failed: %s: %s", type(error).__name__, error)
        finally:
            self.stop()
            self._ready.set()
            await self._place.close()
            self.over.set()

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        while (left := self._idle if self._requests else self._last + self._idle - loop.time()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._stopped.wait()
                    return

    def stop(self) -> None:
        """Begin to end the session. It serves no request from now on."""
        self._stopped.set()

    @property
    def idle_since(self) -> float | None:
        """The loop's time of the end of the last request; ``None`` while there is one."""
        return None if self._requests else self._last

    @property
    def stopped(self) -> bool:
        """Whether the session serves no more requests."""
        return self._stopped.is_set()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of the session. Raises ``Refused`` if it has ended."""

        async def watched(message: Message) -> None:
            if not self.id and message["type"] == "http.response.start" and message["status"] < 400:
                self.id = dict(message["headers"]).get(_HEADER, b"").decode("ascii")
            await send(message)

        self._requests += 1
        try:
            await self._ready.wait()
            if self.stopped:
                raise Refused(404, "NotFound", "the MCP session has ended; initialize another one")
            await self._manager.handle_request(scope, receive, watched)
        finally:
            self._requests -= 1
            self._last = asyncio.get_running_loop().time()
