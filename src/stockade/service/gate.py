"""Checks before the API: keys, sizes, and deadlines for slow clients."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto.utilities import ProtocolError

from stockade.service.errors import Refused

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from stockade.service.state import State

OPEN = ("/healthz", "/readyz", "/openapi.json")
"""Paths that need no key."""
HEAD_SECONDS = 10.0
BODY_SECONDS = 30.0
SEND_SECONDS = 30.0
_MOST_UNREAD = 1 << 20


class Gate:
    """Lets a request through with its key, and with its whole body, once both are there."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection's request."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        try:
            if scope["type"] == "websocket" or scope["path"] not in OPEN:
                scope["state"]["key"] = await self._key(scope)
            if scope["type"] == "websocket":
                return await self._app(scope, receive, send_in_time)
            body = await self._body(scope, receive)
        except Refused as refused:
            self._state.metrics.refused(refused.status)
            return await refused.answer()(scope, receive, send_in_time)
        rest = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return rest.pop() if rest else await receive()

        return await self._app(scope, receive_again, send_in_time)

    async def _key(self, scope: Scope) -> Any:
        given = _key_in(scope)
        try:
            key = await self._state.call(self._state.keys.find, given) if given else None
        except DBAPIError as error:
            raise Refused(503, "DatabaseError", f"keys cannot be checked now: {error.orig}", retry=5) from None
        if key is None:
            what = "this key is not known here" if given else "a key is needed"
            raise Refused(
                401,
                "KeyError",
                f"{what}: send it as 'Authorization: Bearer e2b_...', as 'X-API-Key' or as the password of a URL",
            )
        return key

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        most = self._state.settings.body_bytes
        too_large = Refused(413, "BodyTooLarge", f"the body has more than {most} bytes, which is the most")
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > most:
            raise too_large
        pieces, size = [], 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "RequestError", "the connection ended before the body")
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return b"".join(pieces)
        except TimeoutError:
            raise Refused(408, "RequestError", f"the body did not arrive within {BODY_SECONDS:g} seconds") from None


def _key_in(scope: Scope) -> str:
    """Return the key that a request carries, or an empty text."""
    headers = dict(scope["headers"])
    kind, _, value = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "bearer" and value:
        return str(value.strip())
    if kind.lower() == "basic":  # how a client sends http://key:e2b_...@host, if it knows of no keys
        with suppress(ValueError):
            return b64decode(value.strip()).decode("latin-1").rpartition(":")[2]
    own = headers.get(b"x-api-key") or headers.get(b"x-auth-token", b"")  # the second one by clients of Judge0's API
    return str(own.decode("latin-1").strip())


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 by uvicorn, with deadlines for the head of each request, and for a client that reads nothing."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """Start the deadline of the client: what is written waits for it."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the deadline of the client."""
        self._read_again()
        super().resume_writing()

    def _read_again(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the deadlines."""
        self._arrived()
        self._read_again()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Start the deadline of a later head: its first bytes have arrived."""
        super().on_message_begin()
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def on_headers_complete(self) -> None:
        """Note that the head is complete."""
        self._arrived()
        super().on_headers_complete()

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class SocketProtocol(WSProtocol):
    """WebSockets by uvicorn. It has no end of its own for bytes that it cannot decode, nor for a client that reads
    nothing: answers to its pings, which wait for nobody, would fill the memory.
    """

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        if self.transport.get_write_buffer_size() > _MOST_UNREAD:
            self.transport.abort()
            return
        try:
            super().data_received(data)
        except (ValueError, ProtocolError):
            self.transport.abort()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Let what was written go out for some time, and end the connection."""
        super().on_task_complete(task)
        self.loop.call_later(SEND_SECONDS, self.transport.abort)
