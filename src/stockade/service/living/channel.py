"""The socket between the front and the service worker: whole messages, in pieces that keep their boundaries.

Both ends stay open in the parent, so either process can be replaced. A successor finds whole packets, which belong to
calls that it does not know.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator

CALL, ANSWER, CANCEL = b"c", b"a", b"x"
LONGEST = 64 << 20
"""The bytes of the longest message."""
NAME_BYTES = 16
_PIECE = 1 << 16
_HEAD = NAME_BYTES + 2
_LAST, _MORE = b".", b"+"
_MOST_BYTES = 4 * LONGEST


class TooLongError(ValueError):
    """A message has more than ``LONGEST`` bytes."""


class Channel:
    """An end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._turn = asyncio.Lock()
        self._parts: OrderedDict[bytes, bytearray] = OrderedDict()
        """Messages of which pieces are missing, by kind and name."""

    async def send(self, kind: bytes, name: str, content: bytes = b"") -> None:
        """Send a message. Others may send pieces of theirs in between. Raises ``TooLongError``."""
        if len(content) > LONGEST:
            raise TooLongError(f"the message has {len(content)} bytes, and {LONGEST} is the most")
        loop, view = asyncio.get_running_loop(), memoryview(content)
        for at in range(0, len(content) or 1, _PIECE):
            more = _MORE if at + _PIECE < len(content) else _LAST
            async with self._turn:
                await loop.sock_sendall(self._end, b"".join((kind, more, name.encode(), view[at : at + _PIECE])))

    async def messages(self) -> AsyncIterator[tuple[bytes, str, bytes]]:
        """Yield each message: its kind, its name and its content."""
        loop = asyncio.get_running_loop()
        while packet := await loop.sock_recv(self._end, _HEAD + _PIECE):
            kind, more, name, piece = packet[:1], packet[1:2], packet[2:_HEAD], packet[_HEAD:]
            parts = self._parts.setdefault(kind + name, bytearray())
            parts += piece
            if kind == CANCEL:
                self._parts.pop(CALL + name, None)
            if more == _LAST:
                del self._parts[kind + name]
                yield kind, name.decode("ascii", "replace"), bytes(parts)
            while sum(map(len, self._parts.values())) > _MOST_BYTES:
                self._parts.popitem(last=False)  # of a sender that was killed

    def forget(self) -> None:
        """Forget messages that are incomplete: their sender has ended."""
        self._parts.clear()
