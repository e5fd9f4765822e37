"""The sending half of a run's socket: messages of any thread are sent whole and in order."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from stockade.client.exchange import Exchange
from stockade.client.sockets import send_now
from stockade.core import trace
from stockade.core.errors import JobError
from stockade.runs.events import Event


class SendQueue:
    """Guards an exchange and sends its messages without waiting. If the socket takes only a part, the queue wakes the
    thread that waits on the socket, which sends the rest."""

    def __init__(
        self, exchange: Exchange, sock: socket.socket, observe: Callable[[Event], object] | None = None
    ) -> None:
        """``observe`` is called with each event, without a lock, in the thread that receives."""
        self.exchange = exchange
        self._observe = observe
        self._sock = sock
        self._lock = threading.Lock()
        self._shut = False
        self._closed = False
        self._owner = os.getpid()
        self.wake: Callable[[], object] = lambda: None
        """Wakes the waiter on the socket. Any thread may call it, but nobody calls it after ``close``."""

    @contextmanager
    def locked(self) -> Iterator[Exchange | None]:
        """Lock the exchange while the caller changes it, then send.

        Yields ``None`` if the exchange is over or belongs to the parent process.
        """
        if self.is_inherited:
            yield None
            return
        with self._lock:
            yield None if self._closed or self.exchange.finished else self.exchange
            if self._flush():
                self.wake()

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked from the owner of the run, and so must leave the run alone."""
        return self._owner != os.getpid()

    def check_owner(self) -> None:
        """Raise ``JobError`` in a process that was forked meanwhile: only its parent may read the messages."""
        if self.is_inherited:
            raise JobError(f"the run is process {self._owner}'s: a process forked from that one cannot follow it")

    def flush(self) -> bool:
        """Send as much as the socket takes now; return whether something is left."""
        with self._lock:
            return self._flush()

    def feed(self, data: bytes, *, reset: bool = False, why: str = "") -> list[Event]:
        """Take bytes from the warden; see ``Exchange.feed``."""
        with self._lock:
            events = list(self.exchange.feed(data, reset=reset, why=why))
        if self._observe is not None:
            for event in events:
                self._observe(event)
        return events

    def ping(self) -> None:
        """Ask the warden for a sign of life."""
        with self._lock:
            if not self._closed:
                self.exchange.ping()
                self._flush()

    def send_input(self, data: bytes | None) -> None:
        """Send a piece of standard input."""
        with self._lock:
            self.exchange.send_input(data)

    def stop_receiving(self) -> None:
        """Show the reader of the socket its end: the warden is killed, but cannot close its side yet."""
        with self._lock, suppress(OSError):
            if not self._closed:
                self._sock.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """Send nothing more: the socket may serve another run from now on."""
        if self.is_inherited:
            return  # a thread of the parent process may have held the lock
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
            self.exchange.cut_off()  # the reader will see the end
        else:
            self.exchange.all_sent()
        return False

    def _hang_up(self) -> None:
        if not self._shut:
            self._shut = True
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)


class WakeupPipe:
    """An eventfd(2) descriptor that any thread can make readable."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def ring(self) -> None:
        """Make the descriptor readable."""
        os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        """Make the descriptor unreadable again."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)
