"""The socket between the server and its worker: short lines that save both a wait for their next look.

A line that is lost costs time and nothing else.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

WAKE, CANCEL = "wake", "cancel"
"""What the server says: there are new runs; a run was cancelled."""
READY, REFUSED, FINISHED, ALIVE = "ready", "refused", "finished", "alive"
"""What a worker says: it takes runs; it cannot, and why; a run has a result; it is not stuck."""
_MOST_WAITING = 1 << 16
_LONGEST = 1 << 16


class Link:
    """An end of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def over(cls, end: socket.socket) -> Link:
        """Return the link over one end of a pair of sockets, which it closes later."""
        return cls(*await asyncio.open_connection(sock=end, limit=_LONGEST))

    def send(self, word: str, *values: str) -> None:
        """Send a line, unless the other end has long read none."""
        if not self._writer.is_closing() and self._writer.transport.get_write_buffer_size() < _MOST_WAITING:
            self._writer.write((" ".join((word, *values)) + "\n").encode())

    async def lines(self) -> AsyncIterator[tuple[str, str]]:
        """Yield each line as its first word and the rest, until the other end is gone."""
        try:
            while line := await self._reader.readline():
                word, _, rest = line.decode("utf-8", "replace").rstrip("\n").partition(" ")
                yield word, rest
        except (OSError, ValueError):  # reset by the end of a killed process, or a line that is too long
            return

    def close(self) -> None:
        """Close this end."""
        self._writer.close()
