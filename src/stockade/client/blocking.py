"""The blocking driver: one run over poll(2)."""

from __future__ import annotations

import io
import os
import select
import socket
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import BinaryIO

from stockade.client import warden_process
from stockade.client.connection import Connection
from stockade.client.liveness import Liveness
from stockade.client.send_queue import SendQueue, WakeupPipe
from stockade.client.sockets import has_unread
from stockade.runs.events import Event

_CHUNK = 1 << 16


Attend = Mapping[int, Callable[[], object]]
"""Descriptors to wait for besides the run's own, each with a function to call when it becomes readable."""


def events(
    send_queue: SendQueue, connection: Connection, stdin: bytes | BinaryIO | None, *, attend: Attend | None = None
) -> Generator[Event, None, None]:
    """Hold the exchange over ``connection`` to its end and yield its events.

    Other threads may use the ``send_queue`` meanwhile only if ``attend`` holds a descriptor that wakes this one.
    Without ``attend``, this thread sleeps on the socket alone.
    """
    source, exchange = Source(stdin), send_queue.exchange
    liveness = Liveness(connection.warden, send_queue)
    try:
        while not exchange.finished:
            send_queue.check_owner()
            while exchange.wants_input and source.ready_now:
                send_queue.send_input(source.read())
            send_queue.flush()
            if exchange.wants_input and source.ready_now:
                continue  # the socket took all of it, and more input is ready
            waits_for_input = exchange.wants_input and source.fd is not None
            if waits_for_input or exchange.outgoing or attend:
                yield from _wait(send_queue, connection, source if waits_for_input else None, attend or {}, liveness)
            elif liveness.wait(connection.sock):  # nothing to send, so only receive
                yield from _receive(send_queue, connection, liveness)
    finally:
        send_queue.close()
        connection.reusable = exchange.reusable


def turn(
    send_queue: SendQueue, connection: Connection, wakeup: WakeupPipe, liveness: Liveness, seconds: float
) -> list[Event]:
    """Send and receive once, for at most ``seconds``; return the events. One thread at a time may call it.

    Other threads may use the ``send_queue``, which rings ``wakeup``.
    """
    send_queue.check_owner()
    send_queue.flush()
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN | (select.POLLOUT if send_queue.exchange.outgoing else 0))
    poll.register(wakeup.fd, select.POLLIN)
    pause = min(seconds, liveness.seconds)
    found = dict(poll.poll(pause * 1000))
    if not found and pause < seconds:
        liveness.look()
    if wakeup.fd in found:
        wakeup.clear()
    if found.get(connection.sock.fileno(), 0) & (select.POLLIN | select.POLLHUP | select.POLLERR):
        return list(_receive(send_queue, connection, liveness))
    return []


def _wait(
    send_queue: SendQueue, connection: Connection, source: Source | None, attend: Attend, liveness: Liveness
) -> Iterator[Event]:
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN | (select.POLLOUT if send_queue.exchange.outgoing else 0))
    for fd in attend:
        poll.register(fd, select.POLLIN)
    if source is not None and source.fd is not None:
        poll.register(source.fd, select.POLLIN)
    found = poll.poll(liveness.seconds * 1000)
    if not found:
        liveness.look()
    for fd, happened in found:
        if fd in attend:
            attend[fd]()
        elif source is not None and fd == source.fd:
            send_queue.send_input(source.read())
        elif happened & (select.POLLIN | select.POLLHUP | select.POLLERR):
            yield from _receive(send_queue, connection, liveness)


def _receive(send_queue: SendQueue, connection: Connection, liveness: Liveness) -> Iterator[Event]:
    try:
        data, reset = connection.sock.recv(_CHUNK), False
    except ConnectionResetError:
        data, reset = b"", True
    if data:
        liveness.note_message()
        yield from send_queue.feed(data)
    else:
        warden_process.end_if_exiting()
        reset = reset or has_unread(connection.sock)
        yield from send_queue.feed(b"", reset=reset, why=connection.warden.why_gone())


class Source:
    """The source of a guest's standard input: bytes, an open file, or nothing."""

    def __init__(self, stdin: bytes | BinaryIO | None) -> None:
        self._file: BinaryIO | None = None
        self.fd: int | None = None
        if stdin is None or isinstance(stdin, bytes | bytearray | memoryview):
            self._file = io.BytesIO(stdin or b"")
            return
        self._file = stdin
        if _is_plain_stream(stdin):
            self.fd = stdin.fileno()

    @property
    def ready_now(self) -> bool:
        """Whether a read needs no wait: it cannot block, or the source has no descriptor to wait for."""
        return self.fd is None

    def read(self) -> bytes | None:
        """Return the next piece of input: empty at the end, ``None`` if nothing is ready."""
        if self.fd is not None:
            try:
                return os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return None  # another reader of the descriptor was faster
        assert self._file is not None
        return self._file.read(_CHUNK)


def _is_plain_stream(file: BinaryIO) -> bool:
    """Return whether ``file`` is a pipe, a terminal or a socket: reading may block, and its descriptor has all bytes.

    Bytes that the buffer of such a stream has read ahead are lost.
    """
    raw = file.raw if isinstance(file, io.BufferedReader) else file
    return isinstance(raw, io.FileIO | socket.SocketIO) and not raw.seekable()
