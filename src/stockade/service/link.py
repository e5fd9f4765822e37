"""The sockets between the parent and its processes: short lines that save both sides a wait for their next look.

A line that is lost costs time and nothing else. The parent passes lines of the front and the worker on to the other.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

WAKE, CANCEL, LEFT = "wake", "cancel", "left"
"""For the worker: there are new runs; a run was cancelled; the front ended, and nobody waits for its calls."""
READY, REFUSED, ALIVE = "ready", "refused", "alive"
"""For the parent: the process works; it cannot, and why; it is not stuck. The front learns which worker is ready."""
FINISHED, DOWN, RESTARTED = "finished", "down", "restarted"
"""For the front: a run has a result; no worker takes runs; the worker ended by itself."""
REACHED, ALERTED = "reached", "alerted"
"""The worker tells the front, for its figures: a run is near a limit or met it, and how; a rule raised an alert."""
ASK, ANSWER = "ask", "answer"
"""The front asks the parent to use the kill switch, and what became of it: a number, and JSON."""
_MOST_WAITING = 1 << 16
_LONGEST = 1 << 20


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
