"""``Runner`` for asyncio: the same exchange, driven by a running event loop. Imported on first use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, aclosing
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO, Unpack

from stockade.api.job_arguments import Source, job_from_command, job_from_source
from stockade.api.launcher import concluded
from stockade.api.options import OF_A_RUNNER, POLICY_OPTIONS, CommandOptions, PolicyOptions, RunOptions, check_names
from stockade.api.runner import Runner
from stockade.api.stream import REPORT_SECONDS, Controls, Streaming, stream_options
from stockade.backends.base import Backend
from stockade.client.connection import Connection
from stockade.client.event_loop import events, take_slot
from stockade.client.exchange import LaunchLost
from stockade.client.send_queue import SendQueue
from stockade.core.hints import known_options
from stockade.policy.ceiling import Given
from stockade.policy.model import PolicyLike
from stockade.runs.events import Event, Finished, LimitReached, OnWarning
from stockade.runs.hooks import Hooks
from stockade.runs.job import Job
from stockade.runs.result import Result

OpenExchange = AbstractContextManager[tuple[SendQueue, Connection]]


class AsyncRunner(Streaming["AsyncStream"]):
    """``Runner`` for asyncio: many runs at a time on one thread. Cancelling the task ends the run."""

    def __init__(
        self,
        policy: PolicyLike | None = None,
        *,
        backend: str | Backend | None = None,
        image: str | None = None,
        trust: str | None = None,
        ceiling: Given | None = None,
        preload: Sequence[str] = (),
        warm: bool | None = None,
        requirements: Sequence[str] = (),
        hooks: Hooks | None = None,
        **limits: Unpack[PolicyOptions],
    ) -> None:
        check_names(limits, POLICY_OPTIONS, OF_A_RUNNER)
        more: Any = {"preload": preload, "warm": warm, "requirements": requirements, "hooks": hooks, **limits}
        self._make = partial(Runner, policy, backend=backend, image=image, trust=trust, ceiling=ceiling, **more)
        self._inner: Runner | None = None

    async def __aenter__(self) -> AsyncRunner:
        """Choose backend and plan; raises as ``Runner`` does."""
        await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: a runner holds no resources."""

    @known_options
    async def run(
        self, source: Source, *, on_warning: OnWarning | None = None, **options: Unpack[RunOptions]
    ) -> Result:
        """Run source text, or a file whose suffix names the language; see ``stockade.run`` for the options."""
        inner = await self._ready()
        if type(self).run_job is AsyncRunner.run_job:  # a subclass may handle each job itself
            try:
                with inner._launcher.fast_path(source, options) as opened:
                    if opened is not None:
                        return await _complete(*opened, None, on_warning)
            except LaunchLost:  # run it the ordinary way, on a new warden
                return await self._run_once(inner, job_from_source(source, **options), on_warning)
        job = job_from_source(source, **options)
        result = await self.run_job(job, on_warning=on_warning)
        inner._launcher.remember(job, source, options)
        return result

    @known_options
    async def run_command(
        self, argv: Sequence[str], *, on_warning: OnWarning | None = None, **options: Unpack[CommandOptions]
    ) -> Result:
        """Run a command; see ``stockade.run_command`` for the options."""
        return await self.run_job(job_from_command(argv, **options), on_warning=on_warning)

    async def run_job(self, job: Job, *, on_warning: OnWarning | None = None) -> Result:
        """Run a job and return its verdict."""
        inner = await self._ready()
        try:
            return await self._run_once(inner, job, on_warning, final=False)
        except LaunchLost:
            return await self._run_once(inner, job, on_warning)

    async def _run_once(self, inner: Runner, job: Job, on_warning: OnWarning | None, *, final: bool = True) -> Result:
        job = await _provided(inner, job)
        with inner.open_exchange(job, final=final, slot=await take_slot()) as (send_queue, connection):
            return await _complete(send_queue, connection, job.stdin, on_warning)

    def stream_job(
        self, job: Job, *, interactive: bool = False, report_seconds: float | None = REPORT_SECONDS
    ) -> AsyncStream:
        """Run a job and return its events as they happen; see ``stream``."""
        how = stream_options(job, interactive=interactive, report_seconds=report_seconds)

        async def open_exchange(*, final: bool) -> OpenExchange:
            inner = await self._ready()
            provided = await _provided(inner, job)
            return inner.open_exchange(provided, final=final, slot=await take_slot(), **how)

        return AsyncStream(open_exchange, job.stdin)

    async def _ready(self) -> Runner:
        if self._inner is None:
            # The first plan of a process waits for its warden, so another thread makes it.
            self._inner = await asyncio.to_thread(self._make)
        return self._inner


class AsyncStream(Controls):
    """The events of a run: an asynchronous iterator and a context manager.

    The run begins with the first event or with ``async with``. Leaving the context or the loop ends the run; so does
    cancelling the task. Any task or thread may call the methods of ``Controls``, without ``await``.
    """

    def __init__(self, open_exchange: Callable[..., Awaitable[OpenExchange]], stdin: bytes | BinaryIO | None) -> None:
        """``open_exchange`` opens the exchange."""
        super().__init__()
        self._over = False
        # No reference to self, so self can be collected.
        self._events = _stream_events(open_exchange, stdin, self._queue)

    def __aiter__(self) -> AsyncIterator[Event]:
        """Return itself."""
        return self

    async def __anext__(self) -> Event:
        """Wait for the next event."""
        if self._over:
            raise StopAsyncIteration
        event = await anext(self._events)
        while event is None:  # the run has begun, and its events follow
            event = await anext(self._events)
        if isinstance(event, Finished):
            await self.aclose()
        return event

    async def __aenter__(self) -> AsyncStream:
        """Begin the run."""
        await anext(self._events)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run if it has not ended."""
        await self.aclose()

    async def aclose(self) -> None:
        """End the run if it has not ended, and release its resources. No more events come."""
        self._over = True
        await self._events.aclose()


async def _stream_events(
    open_exchange: Callable[..., Awaitable[OpenExchange]], stdin: bytes | BinaryIO | None, queue: list[SendQueue]
) -> AsyncGenerator[Event | None, None]:
    """Yield ``None`` when the launch is sent, and then the events."""
    for final in (False, True):
        try:
            with await open_exchange(final=final) as (send_queue, connection):
                queue[:] = [send_queue]
                send_queue.flush()
                yield None
                async with aclosing(events(send_queue, connection, stdin)) as happening:
                    async for event in happening:
                        yield event
                return
        except LaunchLost:  # the warden is gone before the run began
            continue


async def _provided(runner: Runner, job: Job) -> Job:
    """Provide the packages of a job in another thread, because they may have to be downloaded."""
    return await asyncio.to_thread(runner._launcher.provided, job) if job.requirements else job


async def _complete(
    send_queue: SendQueue, connection: Connection, stdin: bytes | BinaryIO | None, on_warning: OnWarning | None
) -> Result:
    """Drive an exchange to its end; return the verdict."""
    async for event in events(send_queue, connection, stdin):
        if on_warning is not None and isinstance(event, LimitReached) and event.is_warning:
            on_warning(event)
    return concluded(send_queue)
