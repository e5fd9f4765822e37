"""Two sandboxes that talk: what one prints is what the other reads.

The library holds one conversation for each run; here two of them are held at a time, and standard output of
each is handed to the other as it comes. Nothing else joins the two.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

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
        async with await _End.open(first) as one, await _End.open(second) as other, asyncio.TaskGroup() as group:
            group.create_task(other.relay(one))
            await one.relay(other)
            await other.cancel()
    return first.result(leading.plan), second.result(following.plan)


class _End:
    """One running sandbox."""

    def __init__(self, talk: Conversation, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._talk, self._reader, self._writer = talk, reader, writer

    @classmethod
    async def open(cls, talk: Conversation) -> _End:
        """Start it."""
        end = cls(talk, *await asyncio.open_unix_connection(sock=wardens.current().open_run()))
        await end._flush()
        return end

    async def __aenter__(self) -> _End:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()  # which ends the run, if it has not ended
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def relay(self, other: _End) -> None:
        """Hand standard output to ``other`` as it comes, until this one ends."""
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
        await self._flush()
        if not self._talk.finished:
            with suppress(OSError):
                self._writer.write_eof()

    async def _receive(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK)
        except ConnectionResetError:
            return b""

    async def _flush(self) -> None:
        piece = bytes(self._talk.outgoing)
        self._talk.outgoing.clear()
        if self._talk.finished:
            return
        with suppress(ConnectionError):  # the end comes by reading
            self._writer.write(piece)
            await self._writer.drain()
