"""The blocking face: one run, driven by poll(2)."""

from __future__ import annotations

import io
import os
import select
import socket
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import BinaryIO

from stockade.client import warden_process
from stockade.client.connection import Line
from stockade.client.liveness import Patience
from stockade.client.send_queue import Outbox
from stockade.runs.events import Event

_CHUNK = 1 << 16


Attend = Mapping[int, Callable[[], object]]
"""Descriptors to wait for besides the run's own, and what to call when one can be read."""


def events(
    outbox: Outbox, line: Line, stdin: bytes | BinaryIO | None, *, attend: Attend | None = None
) -> Generator[Event, None, None]:
    """Hold the conversation over ``line`` and yield what happens.

    Only who has something to ``attend`` to may use the ``outbox`` meanwhile; others sleep on the socket alone.
    """
    source, talk = Source(stdin), outbox.talk
    patience = Patience(line.warden, outbox)
    try:
        while not talk.finished:
            outbox.check_owner()
            while talk.wants_input and source.ready_now:
                outbox.send_input(source.read())
            outbox.flush()
            if talk.wants_input and source.ready_now:
                continue  # all of it went out, and there is more
            waits_for_input = talk.wants_input and source.fd is not None
            if waits_for_input or talk.outgoing or attend:
                yield from _wait(outbox, line, source if waits_for_input else None, attend or {}, patience)
            elif patience.wait(line.sock):  # nothing left to do but to listen
                yield from _hear(outbox, line, patience)
    finally:
        outbox.close()
        line.settled = talk.settled


def _wait(outbox: Outbox, line: Line, source: Source | None, attend: Attend, patience: Patience) -> Iterator[Event]:
    poll = select.poll()
    poll.register(line.sock, select.POLLIN | (select.POLLOUT if outbox.talk.outgoing else 0))
    for fd in attend:
        poll.register(fd, select.POLLIN)
    if source is not None and source.fd is not None:
        poll.register(source.fd, select.POLLIN)
    found = poll.poll(patience.seconds * 1000)
    if not found:
        patience.look()
    for fd, happened in found:
        if fd in attend:
            attend[fd]()
        elif source is not None and fd == source.fd:
            outbox.send_input(source.read())
        elif happened & (select.POLLIN | select.POLLHUP | select.POLLERR):
            yield from _hear(outbox, line, patience)


def _hear(outbox: Outbox, line: Line, patience: Patience) -> Iterator[Event]:
    try:
        data, reset = line.sock.recv(_CHUNK), False
    except ConnectionResetError:
        data, reset = b"", True
    if data:
        patience.heard()
        yield from outbox.feed(data)
    else:
        warden_process.end_if_exiting()
        yield from outbox.feed(b"", reset=reset, why=line.warden.why_gone())


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
