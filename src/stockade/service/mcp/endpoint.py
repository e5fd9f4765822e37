"""The endpoint ``/mcp``: whose sessions there are, how many, and which requests reach them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response

from stockade.service.errors import Refused
from stockade.service.mcp.place import IDLE_SECONDS, ServicePlace
from stockade.service.mcp.session import Session

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from stockade.service.keys import Key
    from stockade.service.state import State

_SESSION, _VERSION = "mcp-session-id", "mcp-protocol-version"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_RETRY_SECONDS = 5


class Endpoint:
    """Sessions by their key and id. The gate has checked the key of every request, and read its body."""

    def __init__(self, state: State) -> None:
        self._state = state
        state.at_stop.append(self.stop)
        self._sessions: set[Session] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # The SDK would add a handler of its own, which loads modules that this process cannot open.
        logging.basicConfig(format="%(message)s")
        for name in ("mcp", "sse_starlette"):
            logging.getLogger(name).setLevel(logging.ERROR)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        headers, key, method = Headers(scope=scope), scope["state"]["key"], scope["method"]
        _check_origin(headers)
        _check_version(headers)
        name = headers.get(_SESSION)
        if name is None:
            await self._begin(key, scope, receive, send)
            return
        session = self._of(key, name)
        if method != "DELETE":
            await session.handle(scope, receive, send)
            return
        session.stop()
        await session.over.wait()
        await Response(status_code=200)(scope, receive, send)

    def stop(self) -> None:
        """Begin to end every session."""
        for session in self._sessions:
            session.stop()

    def _of(self, key: Key, name: str) -> Session:
        for session in self._sessions:
            if session.id == name and session.key == key.id and not session.stopped:
                return session
        raise Refused(
            404, "NotFound", "this key has no MCP session of this id, or it has ended; initialize another one"
        )

    async def _begin(self, key: Key, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a session for a request that asks for one."""
        if scope["method"] != "POST":
            raise Refused(400, "RequestError", f"{scope['method']} needs the header Mcp-Session-Id")
        body = await receive()
        if b'"initialize"' not in body.get("body", b""):
            raise Refused(
                400, "RequestError", "without the header Mcp-Session-Id, only the request initialize is taken"
            )
        await self._make_space(key)
        session = Session(key.id, ServicePlace(self._state, key), IDLE_SECONDS, self._state.settings.body_bytes)
        self._sessions.add(session)
        task = asyncio.create_task(self._run(session))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        kept = [body]

        async def receive_again() -> Message:
            return kept.pop() if kept else await receive()

        try:
            await session.handle(scope, receive_again, send)
        finally:
            if not session.id:
                session.stop()

    async def _run(self, session: Session) -> None:
        try:
            await session.run()
        finally:
            self._sessions.discard(session)

    async def _make_space(self, key: Key) -> None:
        """Raise ``Refused`` if this key, or all of them, have as many sessions as they may have sandboxes.

        Many clients never end a session. So the one of this key ends that has had no request for the longest time.
        """
        own, every = self._state.settings.sandboxes_of_a_key, self._state.settings.sandboxes
        while True:
            of_key = [session for session in self._sessions if session.key == key.id]
            if len(of_key) < own and len(self._sessions) < every:
                return
            idle = [session for session in of_key if session.idle_since is not None]
            if not idle:
                break
            oldest = min(idle, key=lambda session: session.idle_since or 0.0)
            oldest.stop()
            await oldest.over.wait()
        if len(of_key) >= own:
            message = f"{len(of_key)} MCP sessions of this key are in use, which is the most; end one"
            raise Refused(429, "TooManySessions", message, retry=_RETRY_SECONDS)
        message = f"{len(self._sessions)} MCP sessions are open, which is the most"
        raise Refused(503, "TooManySessions", message, retry=_RETRY_SECONDS)


def _check_origin(headers: Headers) -> None:
    """Raise ``Refused`` for a web page, unless this machine's own name leads to it.

    A page of any other name is foreign, even one whose name leads here now (DNS rebinding): then ``Host`` has it too.
    """
    host = headers.get("host", "").lower()
    for origin in headers.getlist("origin"):
        try:
            parts = urlsplit(origin.lower())
            is_own = parts.hostname in _LOOPBACK and parts.netloc == host
        except ValueError:
            is_own = False
        if not is_own:
            raise Refused(403, "OriginRefused", f"Origin = {origin[:80]!r}: no page of another origin may use MCP here")


def _check_version(headers: Headers) -> None:
    """Raise ``Refused`` for a version of the protocol without sessions. Clients then try an earlier one."""
    version = headers.get(_VERSION)
    if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
        known = ", ".join(HANDSHAKE_PROTOCOL_VERSIONS)
        message = f"MCP-Protocol-Version = {version[:40]!r}: a sandbox belongs to a session, so this takes {known}"
        raise Refused(400, "UnsupportedProtocolVersion", message)
