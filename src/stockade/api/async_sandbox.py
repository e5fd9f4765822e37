"""``Runner`` for asyncio: the same exchange, driven by a running event loop. Imported on first use."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO, Unpack

from stockade.api.job_arguments import Source, job_from_command, job_from_source
from stockade.api.launcher import concluded
from stockade.api.options import CommandOptions, PolicyOptions, RunOptions
from stockade.api.sandbox import Runner
from stockade.api.stream import REPORT_SECONDS, Controls, Streaming, stream_options
from stockade.backends.base import Backend
from stockade.client import run_slots
from stockade.client.blocking import Source as Input
from stockade.client.connection import Connection
from stockade.client.exchange import LaunchLost
from stockade.client.liveness import Liveness
from stockade.client.run_slots import AGAIN_SECONDS, RunSlot
from stockade.client.send_queue import SendQueue
from stockade.client.sockets import has_unread
from stockade.core.errors import StockadeError
from stockade.policy.ceiling import Given
from stockade.policy.model import PolicyLike
from stockade.runs.events import Event, Finished, LimitReached, OnWarning
from stockade.runs.hooks import Hooks
from stockade.runs.job import Job
from stockade.runs.result import Result

OpenExchange = AbstractContextManager[tuple[SendQueue, Connection]]
_CHUNK = 1 << 18


class AsyncRunner(Streaming["AsyncStream"]):
    """``Runner`` for asyncio: many runs at a time on one thread. Cancelling the task ends the run."""

    def __init__(
        self,
        policy: PolicyLike | None = None,
        *,
        backend: str | Backend | None = None,
        trust: str | None = None,
        ceiling: Given | None = None,
        preload: Sequence[str] = (),
        warm: bool | None = None,
        requirements: Sequence[str] = (),
        hooks: Hooks | None = None,
        **limits: Unpack[PolicyOptions],
    ) -> None:
        more: Any = {"preload": preload, "warm": warm, "requirements": requirements, "hooks": hooks, **limits}
        self._make = partial(Runner, policy, backend=backend, trust=trust, ceiling=ceiling, **more)
        self._inner: Runner | None = None

    async def __aenter__(self) -> AsyncRunner:
        """Choose backend and plan; raises as ``Runner`` does."""
        await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: a runner holds no resources."""

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


async def take_slot() -> RunSlot:
    """Wait for a run slot without blocking the event loop. The task holds the slot."""
    loop, holder, there = asyncio.get_running_loop(), asyncio.current_task(), run_slots.slots
    slot = there.attempt(holder)
    if slot is None:
        called = asyncio.Event()
        call = partial(loop.call_soon_threadsafe, called.set)
        there.queue(call)
        try:
            while slot is None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(called.wait(), AGAIN_SECONDS)
                slot = there.attempt(holder)
                if slot is None and called.is_set():
                    called.clear()
                    there.queue(call, first=True)
        finally:
            there.leave_queue(call, has_slot=slot is not None)
    return slot


async def _complete(
    send_queue: SendQueue, connection: Connection, stdin: bytes | BinaryIO | None, on_warning: OnWarning | None
) -> Result:
    """Drive an exchange to its end; return the verdict."""
    async for event in events(send_queue, connection, stdin):
        if on_warning is not None and isinstance(event, LimitReached) and event.is_warning:
            on_warning(event)
    return concluded(send_queue)


async def events(
    send_queue: SendQueue, connection: Connection, stdin: bytes | BinaryIO | None
) -> AsyncGenerator[Event, None]:
    """Hold the exchange over ``connection`` to its end and yield its events."""
    loop, sock, exchange = asyncio.get_running_loop(), connection.sock, send_queue.exchange
    sock.setblocking(False)
    sender = Sender(loop, sock, Input(stdin), send_queue)
    send_queue.wake = partial(loop.call_soon_threadsafe, sender.wake)
    sender.wake()
    watcher = Watcher(loop, Liveness(connection.warden, send_queue))
    try:
        while not exchange.finished:
            send_queue.check_owner()
            data, reset = b"", True
            with suppress(ConnectionResetError):
                data = await loop.sock_recv(sock, _CHUNK)
                reset = not data and has_unread(sock)
            watcher.liveness.note_message()
            for event in send_queue.feed(data, reset=reset, why="" if data else connection.warden.why_gone()):
                yield event
            if exchange.outgoing or exchange.wants_input:
                sender.wake()
    finally:
        watcher.end()
        send_queue.close()
        await sender.end()
        connection.reusable = exchange.reusable


class Watcher:
    """Checks the warden from time to time during a run. It kills a lost warden, which ends the waiting."""

    def __init__(self, loop: asyncio.AbstractEventLoop, liveness: Liveness) -> None:
        self._loop, self.liveness = loop, liveness
        self._timer = loop.call_later(liveness.seconds, self._look)

    def _look(self) -> None:
        self.liveness.look()
        self._timer = self._loop.call_later(self.liveness.seconds, self._look)

    def end(self) -> None:
        """Stop the checks."""
        self._timer.cancel()


class Sender:
    """Sends the exchange's messages, and reads input if the exchange wants it. A task does what has to wait."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, source: Input, send_queue: SendQueue
    ) -> None:
        self._loop, self._sock, self._source, self._send_queue = loop, sock, source, send_queue
        self._more = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    def wake(self) -> None:
        """Send messages, or read input that the exchange wants now."""
        if self._ended:
            return  # another thread called before the end
        if self._task is not None:
            self._more.set()
        elif self._send_queue.flush() or self._send_queue.exchange.wants_input:
            self._task = self._loop.create_task(self._run())
            self._task.add_done_callback(partial(_hang_up_after_failure, self._sock))

    async def end(self) -> None:
        """Send nothing more. Raises the error that kept the input from being read."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, StockadeError):
                await self._task

    async def _run(self) -> None:
        exchange, source = self._send_queue.exchange, self._source
        while True:
            self._more.clear()
            if self._send_queue.flush():
                await _writable(self._loop, self._sock)
            elif not exchange.wants_input:
                await self._more.wait()
            else:
                if not source.ready_now:
                    await _readable(self._loop, source.fd)
                self._send_queue.send_input(source.read())


async def _writable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(sock, _finish, ready)
    try:
        await ready
    finally:
        loop.remove_writer(sock)


async def _readable(loop: asyncio.AbstractEventLoop, fd: int | None) -> None:
    """Wait until ``fd`` is readable, without a thread: a thread that reads a silent pipe could never be ended."""
    if fd is None:
        return
    ready: asyncio.Future[None] = loop.create_future()
    own = os.dup(fd)  # a loop has one reader for each number, and other code may have one on this number
    try:
        loop.add_reader(own, _finish, ready)
        try:
            await ready
        finally:
            loop.remove_reader(own)
    except PermissionError:  # epoll takes no regular file; such a file is always ready
        return
    finally:
        os.close(own)


def _hang_up_after_failure(sock: socket.socket, sender: asyncio.Task[None]) -> None:
    """End the run if its input cannot be read. The sender's error is raised after that."""
    if not sender.cancelled() and sender.exception() is not None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
