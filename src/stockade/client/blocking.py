"""The blocking face: one run, driven by poll(2)."""

from __future__ import annotations

import io
import os
import select
import socket
from collections.abc import Iterator
from typing import BinaryIO

from stockade._events import Event
from stockade.client.conversation import Conversation
from stockade.client.wardens import Line

_CHUNK = 1 << 16


def events(
    talk: Conversation, line: Line, stdin: bytes | BinaryIO | None, *, cancel: int | None = None
) -> Iterator[Event]:
    """Hold the conversation over ``line`` and yield what happens.

    Once the descriptor ``cancel`` can be read, the run is asked to end.
    """
    source, sock = Source(stdin), line.sock
    sock.setblocking(False)
    while not talk.finished:
        if talk.cancelled:
            sock.shutdown(socket.SHUT_WR)
        while talk.wants_input and source.ready_now:
            talk.send_input(source.read())
        _send(sock, talk)
        if talk.wants_input and source.ready_now:
            continue  # all of it went out, and there is more
        waits_for_input = talk.wants_input and source.fd is not None
        if not (waits_for_input or talk.outgoing or cancel is not None):
            sock.setblocking(True)  # nothing left to do but to listen
            yield from talk.feed(_receive(sock))
            sock.setblocking(False)
            continue
        poll = select.poll()
        poll.register(sock, select.POLLIN | (select.POLLOUT if talk.outgoing else 0))
        if waits_for_input and source.fd is not None:
            poll.register(source.fd, select.POLLIN)
        if cancel is not None:
            poll.register(cancel, select.POLLIN)
        for fd, happened in poll.poll():
            if fd == cancel:
                talk.cancel()
                cancel = None
            elif fd == source.fd:
                talk.send_input(source.read())
            elif happened & (select.POLLIN | select.POLLHUP | select.POLLERR):
                yield from talk.feed(_receive(sock))
    line.settled = talk.settled


def _send(sock: socket.socket, talk: Conversation) -> None:
    try:
        while talk.outgoing:
            del talk.outgoing[: sock.send(talk.outgoing)]
    except BlockingIOError:
        pass
    except (BrokenPipeError, ConnectionResetError):
        talk.outgoing.clear()  # the end comes by reading


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


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(_CHUNK * 4)
    except ConnectionResetError:
        return b""
