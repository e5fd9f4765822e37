"""The socket between the front and the service worker: whole messages, in pieces that keep their boundaries.

Both ends stay open in the parent, so either process can be replaced. A successor may find the rest of a message, whose
first piece is gone. It drops that rest: the bytes of a file would otherwise be read as the head of a message.
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
_FIRST, _LAST = 1, 2
"""Marks of a piece, added up."""
_LARGE_AT_ONCE = 4
_MOST_BYTES = _LARGE_AT_ONCE * LONGEST


class TooLongError(ValueError):
    """A message has more than ``LONGEST`` bytes."""


class Channel:
    """An end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._turn, self._large = asyncio.Lock(), asyncio.Semaphore(_LARGE_AT_ONCE)
        self._parts: OrderedDict[bytes, bytearray] = OrderedDict()
        """Messages of which pieces are missing, by kind and name."""

    async def send(self, kind: bytes, name: str, content: bytes = b"") -> None:
        """Send a message. Others may send pieces of theirs in between. Raises ``TooLongError``."""
        if len(content) > LONGEST:
            raise TooLongError(f"the message has {len(content)} bytes, and {LONGEST} is the most")
        if len(content) <= _PIECE:
            await self._piece(kind, _FIRST | _LAST, name, content)
            return
        view = memoryview(content)
        async with self._large:  # so the other end never holds more incomplete ones than it may
            for at in range(0, len(content), _PIECE):
                marks = (at == 0) * _FIRST | (at + _PIECE >= len(content)) * _LAST
                await self._piece(kind, marks, name, view[at : at + _PIECE])

    async def _piece(self, kind: bytes, marks: int, name: str, piece: bytes | memoryview) -> None:
        async with self._turn:
            packet = b"".join((kind, bytes((marks,)), name.encode(), piece))
            await asyncio.get_running_loop().sock_sendall(self._end, packet)

    async def messages(self) -> AsyncIterator[tuple[bytes, str, bytes]]:
        """Yield each message: its kind, its name and its content."""
        loop = asyncio.get_running_loop()
        while packet := await loop.sock_recv(self._end, _HEAD + _PIECE):
            if len(packet) < _HEAD:
                continue
            kind, marks, name, piece = packet[:1], packet[1], packet[2:_HEAD], packet[_HEAD:]
            if kind == CANCEL:
                self._parts.pop(CALL + name, None)
            if marks & _FIRST:
                self._parts[kind + name] = bytearray()
            parts = self._parts.get(kind + name)
            if parts is None:
                continue
            parts += piece
            if marks & _LAST:
                del self._parts[kind + name]
                yield kind, name.decode("ascii", "replace"), bytes(parts)
            while sum(map(len, self._parts.values())) > _MOST_BYTES:
                self._parts.popitem(last=False)  # of a call that was cancelled, or of a sender that was killed

    def forget(self) -> None:
        """Forget messages that are incomplete: their sender has ended."""
        self._parts.clear()
