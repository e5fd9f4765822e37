"""Two sandboxes that talk: what one prints is what the other reads.

Each is a stream whose standard input stays open, and standard output of each is handed to the other as it comes.
Nothing else joins the two.
"""

from __future__ import annotations

import asyncio

from stockade._async import AsyncSandbox, AsyncStream
from stockade._events import Output
from stockade._job import Job
from stockade._result import Result

_MOMENT = 0.005


async def link(leader: tuple[AsyncSandbox, Job], follower: tuple[AsyncSandbox, Job]) -> tuple[Result, Result]:
    """Run both jobs, each one's output being the other's input. The follower is ended when the leader ends."""
    async with _stream(*leader) as one, _stream(*follower) as other, asyncio.TaskGroup() as group:
        group.create_task(_relay(other, one))
        await _relay(one, other)
        other.cancel()
    return one.result, other.result


def _stream(box: AsyncSandbox, job: Job) -> AsyncStream:
    return box.stream_job(job, interactive=True, report_seconds=None)


async def _relay(one: AsyncStream, other: AsyncStream) -> None:
    """Hand standard output of ``one`` to the ``other`` as it comes, until it ends."""
    async for event in one:
        if isinstance(event, Output) and event.stream == 1:
            await _say(other, event.data)
    other.close_stdin()


async def _say(other: AsyncStream, data: bytes) -> None:
    while True:
        try:
            other.write(data)
        except BlockingIOError:  # the other side is slow to read
            await asyncio.sleep(_MOMENT)
        else:
            return
