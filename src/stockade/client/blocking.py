"""The blocking face: one run, driven by poll(2)."""

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
from stockade.client.send_queue import SendQueue
from stockade.runs.events import Event

_CHUNK = 1 << 16


Attend = Mapping[int, Callable[[], object]]
"""Descriptors to wait for besides the run's own, and what to call when one can be read."""


def events(
    send_queue: SendQueue, connection: Connection, stdin: bytes | BinaryIO | None, *, attend: Attend | None = None
) -> Generator[Event, None, None]:
    """Hold the conversation over ``connection`` and yield what happens.

    Only who has something to ``attend`` to may use the ``send_queue`` meanwhile; others sleep on the socket alone.
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
                continue  # all of it went out, and there is more
            waits_for_input = exchange.wants_input and source.fd is not None
            if waits_for_input or exchange.outgoing or attend:
                yield from _wait(send_queue, connection, source if waits_for_input else None, attend or {}, liveness)
            elif liveness.wait(connection.sock):  # nothing left to do but to listen
                yield from _receive(send_queue, connection, liveness)
    finally:
        send_queue.close()
        connection.reusable = exchange.reusable


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
        yield from send_queue.feed(b"", reset=reset, why=connection.warden.why_gone())


class Source:
    """Where a guest's standard input comes from: bytes, an open file, or nothing."""

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
        """Whether reading cannot block, or there is no descriptor to wait for."""
        return self.fd is None

    def read(self) -> bytes | None:
        """Return the next piece; empty at the end, ``None`` if there is nothing now."""
        if self.fd is not None:
            try:
                return os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return None  # somebody else's reading was faster
        assert self._file is not None
        return self._file.read(_CHUNK)


def _is_plain_stream(file: BinaryIO) -> bool:
    """Return whether reading ``file`` may block, and gives what its descriptor gives: a pipe, a terminal, a socket.

    What was read ahead into the buffer of such a stream is not seen.
    """
    raw = file.raw if isinstance(file, io.BufferedReader) else file
    return isinstance(raw, io.FileIO | socket.SocketIO) and not raw.seekable()
