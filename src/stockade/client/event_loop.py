"""The asyncio driver: runs over a running event loop, many at a time on one thread."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import BinaryIO

from stockade.client import run_slots
from stockade.client.blocking import Source
from stockade.client.connection import Connection
from stockade.client.liveness import Liveness
from stockade.client.run_slots import AGAIN_SECONDS, RunSlot
from stockade.client.send_queue import SendQueue
from stockade.client.sockets import has_unread
from stockade.core.errors import StockadeError
from stockade.runs.events import Event

_CHUNK = 1 << 18


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


async def events(
    send_queue: SendQueue, connection: Connection, stdin: bytes | BinaryIO | None
) -> AsyncGenerator[Event, None]:
    """Hold the exchange over ``connection`` to its end and yield its events."""
    loop, sock, exchange = asyncio.get_running_loop(), connection.sock, send_queue.exchange
    sock.setblocking(False)
    sender = Sender(loop, sock, Source(stdin), send_queue)
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
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, source: Source, send_queue: SendQueue
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
