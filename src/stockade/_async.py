"""The asyncio face: the same conversation, driven by a running event loop. Loaded only when asked for."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO

from stockade._ceiling import Given
from stockade._errors import StockadeError
from stockade._events import Event
from stockade._job import Job
from stockade._policy import Policy
from stockade._result import Result
from stockade._sandbox import Sandbox, Source, job_from_command, job_from_source, prepared, verdict_of
from stockade.backends.base import Backend
from stockade.client import wardens
from stockade.client.blocking import Source as Input
from stockade.client.conversation import Conversation

_CHUNK = 1 << 18


class AsyncSandbox:
    """``Sandbox`` for asyncio: many runs at a time on one thread. Cancelling the task ends the run."""

    def __init__(
        self,
        policy: Policy | str | None = None,
        *,
        backend: str | Backend | None = None,
        trust: str | None = None,
        ceiling: Given | None = None,
    ) -> None:
        self._make = partial(Sandbox, policy, backend=backend, trust=trust, ceiling=ceiling)
        self._inner: Sandbox | None = None

    async def __aenter__(self) -> AsyncSandbox:
        """Plan; raises as ``Sandbox`` does."""
        await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go; there is nothing to undo."""

    async def run(self, source: Source, **options: Any) -> Result:
        """Run source text, or a file whose suffix tells the language; see ``stockade.run`` for the options."""
        return await self.run_job(job_from_source(source, **options))

    async def run_command(self, argv: Sequence[str], **options: Any) -> Result:
        """Run a command; see ``stockade.run_command`` for the options."""
        return await self.run_job(job_from_command(argv, **options))

    async def run_job(self, job: Job) -> Result:
        """Run a job and return its verdict."""
        inner = await self._ready()
        with wardens.current().line() as line, prepared(inner.backend, inner.plan, job) as launch:
            talk = Conversation(launch)
            async for _ in events(talk, line, job.stdin):
                pass
            return verdict_of(talk, inner.backend, inner.plan)

    async def _ready(self) -> Sandbox:
        if self._inner is None:
            # The first plan of a process waits for its warden, so it must not hold up the loop.
            self._inner = await asyncio.to_thread(self._make)
        return self._inner


async def events(talk: Conversation, line: wardens.Line, stdin: bytes | BinaryIO | None) -> AsyncIterator[Event]:
    """Hold the conversation over ``line`` and yield what happens."""
    loop = asyncio.get_running_loop()
    sock = line.sock
    sock.setblocking(False)
    sender = asyncio.create_task(_send(loop, sock, Input(stdin), talk))
    sender.add_done_callback(partial(_hang_up_after_failure, sock))
    try:
        while not talk.finished:
            if talk.cancelled:
                sock.shutdown(socket.SHUT_WR)
            try:
                data = await loop.sock_recv(sock, _CHUNK)
            except ConnectionResetError:
                data = b""
            for event in talk.feed(data):
                yield event
        line.settled = sender.done() and talk.settled  # a sender may have stopped within a message
    finally:
        sender.cancel()
        with suppress(asyncio.CancelledError, StockadeError):
            await sender


async def _send(loop: asyncio.AbstractEventLoop, sock: socket.socket, source: Input, talk: Conversation) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # the end comes by reading
        while talk.outgoing or talk.wants_input:
            if talk.outgoing:
                piece = bytes(talk.outgoing)
                talk.outgoing.clear()
                await loop.sock_sendall(sock, piece)
            elif source.ready_now:
                talk.send_input(source.read())
            else:
                await _readable(loop, source.fd)
                talk.send_input(source.read())


async def _readable(loop: asyncio.AbstractEventLoop, fd: int | None) -> None:
    """Wait until ``fd`` can be read. No thread: one that reads a silent pipe could never be ended."""
    if fd is None:
        return
    ready: asyncio.Future[None] = loop.create_future()
    own = os.dup(fd)  # a loop has one reader for each number, and somebody else may have his on this one
    try:
        loop.add_reader(own, _settle, ready)
        try:
            await ready
        finally:
            loop.remove_reader(own)
    except PermissionError:  # a regular file, which epoll does not take: it is always ready
        return
    finally:
        os.close(own)


def _hang_up_after_failure(sock: socket.socket, sender: asyncio.Task[None]) -> None:
    """End the run when its input cannot be read; the sender's error is raised after that."""
    if not sender.cancelled() and sender.exception() is not None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
