"""Two sandboxes that talk: what one prints is what the other reads.

The library holds one conversation for each run; here two of them are held at a time, and standard output of
each is handed to the other as it comes. Nothing else joins the two.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

from stockade import Result, Sandbox
from stockade._events import Output
from stockade._job import Job
from stockade._sandbox import prepared
from stockade.client import wardens
from stockade.client.conversation import Conversation

_CHUNK = 1 << 18


async def link(leader: tuple[Sandbox, Job], follower: tuple[Sandbox, Job]) -> tuple[Result, Result]:
    """Run both jobs, each one's output being the other's input. The follower is ended when the leader ends."""
    (leading, first_job), (following, second_job) = leader, follower
    with (
        prepared(leading.backend, leading.plan, first_job) as first_launch,
        prepared(following.backend, following.plan, second_job) as second_launch,
    ):
        first, second = Conversation(first_launch), Conversation(second_launch)
        with _End(first) as one, _End(second) as other:
            async with asyncio.TaskGroup() as group:
                group.create_task(other.relay(one))
                await one.relay(other)
                await other.cancel()
    return first.result(leading.plan), second.result(following.plan)


class _End:
    """One running sandbox."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._loop = asyncio.get_running_loop()
        self._line = wardens.current().line()
        self._sock = self._line.sock
        self._sock.setblocking(False)
        self._sending = asyncio.Lock()

    def __enter__(self) -> _End:
        return self

    def __exit__(self, *error: Any) -> None:
        self._line.__exit__(*error)  # which ends the run, if it has not ended

    async def relay(self, other: _End) -> None:
        """Start, and hand standard output to ``other`` as it comes, until this one ends."""
        await self._flush()
        while not self._talk.finished:
            for event in self._talk.feed(await self._receive()):
                if isinstance(event, Output) and event.stream == 1 and event.data:
                    await other.say(event.data)
        await other.say(b"")

    async def say(self, data: bytes) -> None:
        """Hand over standard input; no data is its end. Waits while the other side is slow to read."""
        self._talk.send_input(data)
        await self._flush()

    async def cancel(self) -> None:
        """End the run; its verdict still comes, so only our own direction is shut."""
        self._talk.cancel()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    async def _receive(self) -> bytes:
        try:
            return await self._loop.sock_recv(self._sock, _CHUNK)
        except ConnectionResetError:
            return b""

    async def _flush(self) -> None:
        # A stream of asyncio would drop what was received, the verdict too, once writing fails. The lock keeps
        # the pieces in order.
        async with self._sending:
            piece = bytes(self._talk.outgoing)
            self._talk.outgoing.clear()
            with suppress(ConnectionError):  # the end comes by reading
                await self._loop.sock_sendall(self._sock, piece)
