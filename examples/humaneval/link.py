"""Two sandboxes that talk: what one prints is what the other reads.

Each is a stream whose standard input stays open, and standard output of each is handed to the other as it comes.
Nothing else joins the two.
"""

from __future__ import annotations

import asyncio

from stockade import AsyncSandbox, AsyncStream, Output, Result, Sandbox
from stockade._job import Job

_MOMENT = 0.005


async def link(leader: tuple[Sandbox, Job], follower: tuple[Sandbox, Job]) -> tuple[Result, Result]:
    """Run both jobs, each one's output being the other's input. The follower is ended when the leader ends."""
    async with _stream(*leader) as one, _stream(*follower) as other, asyncio.TaskGroup() as group:
        group.create_task(_relay(other, one))
        await _relay(one, other)
        other.cancel()
    return one.result, other.result


def _stream(box: Sandbox, job: Job) -> AsyncStream:
    running = AsyncSandbox(box.policy, backend=box.backend)
    return running.stream_job(job, interactive=True, report_seconds=None)


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
