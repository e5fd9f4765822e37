"""The sending half of a run's socket: whatever thread has something to say, all goes out whole and in order."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from stockade.client.exchange import Exchange
from stockade.client.sending import send_now
from stockade.core import trace
from stockade.core.errors import JobError
from stockade.runs.events import Event


class SendQueue:
    """Guards the conversation and sends what it has to say, never waiting: what the socket has no room for stays, and
    whoever waits on the socket is woken to see to it."""

    def __init__(self, exchange: Exchange, sock: socket.socket) -> None:
        self.exchange = exchange
        self._sock = sock
        self._lock = threading.Lock()
        self._shut = False
        self._closed = False
        self._owner = os.getpid()
        self.wake: Callable[[], object] = lambda: None
        """Wakes up whoever waits on the socket; called from any thread, and never once this is closed."""

    @contextmanager
    def locked(self) -> Iterator[Exchange | None]:
        """Hold the conversation while something is put into it, then send; ``None`` is one that is over, or the parent
        process's."""
        if self.is_inherited:
            yield None
            return
        with self._lock:
            yield None if self._closed or self.exchange.finished else self.exchange
            if self._flush():
                self.wake()

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked from the one whose run it is, and must leave the run alone."""
        return self._owner != os.getpid()

    def check_owner(self) -> None:
        """Raise ``JobError`` in a process that was forked meanwhile: what comes is for its parent to read."""
        if self.is_inherited:
            raise JobError(f"the run is process {self._owner}'s: a process forked from that one cannot follow it")

    def flush(self) -> bool:
        """Send what the socket takes now; return whether something is left."""
        with self._lock:
            return self._flush()

    def feed(self, data: bytes, *, reset: bool = False, why: str = "") -> list[Event]:
        """Take what came from the warden; see ``Exchange.feed``."""
        with self._lock:
            return list(self.exchange.feed(data, reset=reset, why=why))

    def ping(self) -> None:
        """Ask the warden for an answer."""
        with self._lock:
            if not self._closed:
                self.exchange.ping()
                self._flush()

    def send_input(self, data: bytes | None) -> None:
        """Hand over a piece of standard input."""
        with self._lock:
            self.exchange.send_input(data)

    def close(self) -> None:
        """Say nothing more: the socket may be another run's from now on."""
        if self.is_inherited:
            return  # a thread of the parent's may have held the lock
        with self._lock:
            self._closed = True

    def _flush(self) -> bool:
        if self._closed:
            return False
        if self.exchange.cancelled:
            self._hang_up()
        trace.note(self.exchange.trace, trace.SENT)
        try:
            while self.exchange.outgoing:
                del self.exchange.outgoing[: send_now(self._sock, self.exchange.outgoing)]
        except BlockingIOError:
            return True
        except (BrokenPipeError, ConnectionResetError):
            self.exchange.cut_off()  # the end comes by reading
        else:
            self.exchange.all_sent()
        return False

    def _hang_up(self) -> None:
        if not self._shut:
            self._shut = True
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)


class WakeupPipe:
    """A descriptor that any thread can make readable (eventfd(2))."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def ring(self) -> None:
        """Make it readable."""
        os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        """Take notice."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def close(self) -> None:
        """Close it."""
        os.close(self.fd)
