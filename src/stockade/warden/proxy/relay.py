"""Move bytes between a guest's connection and a server's, one thread for each way."""

from __future__ import annotations

import _socket as socket
import _thread
import time

from stockade.warden.proxy.account import RECEIVED, SENT, Account, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_CHUNK = 1 << 16
_LINE = 1 << 10
_CHUNK_SIZE_DIGITS = 12
_HEX = frozenset(b"0123456789abcdefABCDEF")


class Closed(Exception):
    """The end of a connection: a side closed it, or nothing moved for too long."""


class Wire:
    """The client's and the server's end of one connection, with its account."""

    def __init__(self, client: socket.socket, account: Account, idle: float) -> None:
        self.client = client
        self.server: socket.socket | ssl.SSLSocket = client
        self.account, self._idle = account, idle
        self.target = ""
        self.pending = b""
        """Bytes of the client that were read and not used."""
        self._refused = _thread.allocate_lock()
        """Taken by the first refusal."""
        self._moved = time.monotonic()

    def open(self, server: socket.socket | ssl.SSLSocket, target: str) -> None:
        """Connect the client to ``server``. ``target`` is the name in the account."""
        self.server, self.target = server, target
        self._moved = time.monotonic()
        for sock in (self.client, server):
            sock.settimeout(self._idle)

    def read_client(self) -> bytes:
        """Return the client's next bytes, empty at their end."""
        if self.pending:
            data, self.pending = self.pending, b""
            return data
        return self.read(self.client)

    def read(self, sock: socket.socket | ssl.SSLSocket) -> bytes:
        """Return the next bytes of ``sock``, empty at their end. The other way may keep the connection alive."""
        while True:
            try:
                data = sock.recv(_CHUNK)
            except TimeoutError:
                if time.monotonic() - self._moved >= self._idle:
                    raise Closed from None
                continue
            self._moved = time.monotonic()
            return data

    def send(self, way: int, data: bytes) -> None:
        """Count ``data``, and send it on: to the server if ``way`` is ``SENT``, or to the client."""
        if data:
            turn = self.account.carry(self.target, way, len(data))
            self._moved = max(self._moved, turn)  # a connection that waits for its turn is not idle
            time.sleep(max(0.0, turn - time.monotonic()))
            (self.server if way == SENT else self.client).sendall(data)
            self._moved = time.monotonic()

    def refuse(self, refusal: Refused) -> None:
        """Count the connection's first refusal. Call it before the client can notice: its run may end at once."""
        if self._refused.acquire(blocking=False):
            self.account.refuse(refusal)

    def run(self, sending: Callable[[], None], receiving: Callable[[], None]) -> None:
        """Move both ways until both end; a failure of one ends the other."""
        done = _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(self._guarded, (sending, done))
        self._guarded(receiving, None)
        done.acquire()

    def _guarded(self, move: Callable[[], None], done: _thread.LockType | None) -> None:
        try:
            move()
        except Refused as refusal:
            self.refuse(refusal)
            self.abort()
        except (OSError, Closed):
            self.abort()
        except Exception as error:  # of ours
            self.refuse(Refused(500, f"the proxy failed: {type(error).__name__}", self.target))
            self.abort()
        finally:
            if done is not None:
                done.release()

    def send_all(self) -> None:
        """Send what the client sends, until its end."""
        while data := self.read_client():
            self.send(SENT, data)
        self.server.shutdown(socket.SHUT_WR)

    def receive_all(self) -> None:
        """Receive what the server sends, until its end."""
        while data := self.read(self.server):
            self.send(RECEIVED, data)
        self.client.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """End both ways at once."""
        for sock in (self.client, self.server):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other end was faster


class Body:
    """The body of one request: forwards exactly that, and refuses whatever follows."""

    def __init__(self, wire: Wire, length: int, *, chunked: bool) -> None:
        self._wire, self._length, self._chunked = wire, length, chunked
        self._buffer = wire.pending
        wire.pending = b""

    def send(self) -> None:
        """Forward the body, and wait for the client's end."""
        self.forward()
        if self._buffer or self._wire.read(self._wire.client):
            raise Refused(400, "a second request came over one connection", self._wire.target)

    def forward(self) -> None:
        """Forward the body."""
        if self._chunked:
            self._send_chunks()
        else:
            self._send_exactly(self._length)

    def _send_exactly(self, count: int) -> None:
        while count:
            if not self._buffer:
                self._fill()
            part, self._buffer = self._buffer[:count], self._buffer[count:]
            self._wire.send(SENT, part)
            count -= len(part)

    def _send_chunks(self) -> None:
        """Forward chunks, with their sizes written anew and without extensions and trailers (RFC 9112, 7.1)."""
        size = -1
        while size:
            digits = self._line()
            if not digits or len(digits) > _CHUNK_SIZE_DIGITS or not _HEX.issuperset(digits):
                raise Refused(400, "a chunk's size must be a hexadecimal number alone", self._wire.target)
            size = int(digits, 16)
            if size:
                self._wire.send(SENT, b"%x\r\n" % size)
                self._send_exactly(size)
                self._wire.send(SENT, b"\r\n")
            if self._line():
                raise Refused(400, "a chunk is longer than its size, or trailers follow it", self._wire.target)
        self._wire.send(SENT, b"0\r\n\r\n")

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > _LINE:
                raise Refused(400, "a line of the body is too long", self._wire.target)
            self._fill()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _fill(self) -> None:
        data = self._wire.read(self._wire.client)
        if not data:
            raise Closed
        self._buffer += data
