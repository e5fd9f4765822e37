"""Connect two sandboxes: the output of each is the input of the other.

Each is a stream whose standard input stays open. Its standard output is written to the other as it arrives. The two
share nothing else.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from stockade.api.asynchronous.runner import AsyncRunner, AsyncStream
from stockade.policy.guarantees import Guarantee
from stockade.runs.events import Output
from stockade.runs.job import Job
from stockade.runs.result import LimitState, Met, Outcome, Result

_MOMENT = 0.005


async def link(
    leader: tuple[AsyncRunner, Job], follower: tuple[AsyncRunner, Job], printed: float | None = None
) -> tuple[Result, Result]:
    """Run both jobs with the output of each as the input of the other. End the follower when the leader ends.

    ``printed`` is the follower's limit on output. Standard output carries its replies, so only standard error counts.
    A follower that prints more is ended.
    """
    async with _stream(*leader) as one, _stream(*follower) as other, asyncio.TaskGroup() as group:
        replies = group.create_task(_relay(other, one, printed))
        await _relay(one, other)
        other.cancel()
    past = replies.result()
    return one.result, _past_limit(other.result, past, printed) if printed and past else other.result


def _stream(box: AsyncRunner, job: Job) -> AsyncStream:
    return box.stream_job(job, interactive=True, report_seconds=None)


async def _relay(one: AsyncStream, other: AsyncStream, printed: float | None = None) -> int:
    """Write the standard output of ``one`` to ``other`` as it arrives, until it ends.

    Return the number of bytes on standard error if it is more than ``printed``, else 0.
    """
    count = past = 0
    async for event in one:
        if isinstance(event, Output) and event.stream == 1:
            await _say(other, event.data)
        elif isinstance(event, Output):
            count = event.at + len(event.data)
            if printed is not None and count > printed and not past:
                past = count
                one.cancel()
    other.close_stdin()
    return past


def _past_limit(result: Result, count: int, printed: float) -> Result:
    """Return the result of a run that was ended because it printed too much."""
    if result.outcome is Outcome.SANDBOX_FAILED:
        return result
    state = LimitState(Met.MET, f"{count} bytes on standard error, and the limit is {printed:.0f}")
    limits = {**result.limits_met, Guarantee.OUTPUT: state}
    return replace(result, outcome=Outcome.LIMIT_EXCEEDED, limit=Guarantee.OUTPUT, limits_met=limits)


async def _say(other: AsyncStream, data: bytes) -> None:
    while True:
        try:
            other.write(data)
        except BlockingIOError:  # the other side reads slowly
            await asyncio.sleep(_MOMENT)
        else:
            return
