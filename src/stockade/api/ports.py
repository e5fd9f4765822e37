"""The part of a living sandbox that connects to servers in it."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stockade.api.exec_limits import checked_seconds
from stockade.api.execs import Execs
from stockade.api.job_arguments import job_from_command
from stockade.client import blocking
from stockade.core.errors import JobError, SandboxClosed
from stockade.policy.guarantees import Guarantee

if TYPE_CHECKING:
    from stockade.client.send_queue import SendQueue
    from stockade.policy.model import Policy
    from stockade.runs.result import Result

_CONNECT_SECONDS = 10.0
_PIECE = 1 << 16
_MOST_CONNECTIONS = 64
_TOUCH_SECONDS = 1.0
_LOOPBACK = {int(socket.AF_INET): "127.0.0.1", int(socket.AF_INET6): "::1"}
_REFUSED = "nothing in the sandbox listens there"


class PortStream(socket.socket):
    """A TCP connection to a server in a sandbox: a ``socket.socket``, which ``Sandbox.connect`` makes.

    What comes from it is the guest's. Traffic counts as use of the sandbox. The connection ends with the sandbox.
    """

    _used: Callable[[], object] = staticmethod(lambda: None)

    def recv(self, *arguments: Any) -> bytes:
        """Receive as ``socket.socket`` does."""
        self._used()
        return super().recv(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        """Receive as ``socket.socket`` does."""
        self._used()
        return super().recv_into(*arguments)

    def send(self, *arguments: Any) -> int:
        """Send as ``socket.socket`` does."""
        self._used()
        return super().send(*arguments)

    def sendall(self, *arguments: Any) -> None:
        """Send as ``socket.socket`` does."""
        self._used()
        super().sendall(*arguments)


class Ports(Execs):
    """The methods of ``Sandbox`` that reach servers in it."""

    policy: Policy
    _send_queue: SendQueue
    _stack: ExitStack
    _touched = 0.0

    def connect(self, port: int, *, timeout: float = _CONNECT_SECONDS) -> PortStream:
        """Connect to a TCP port of the sandbox's own network, and return the connected socket.

        ``timeout`` is in seconds. The server listens on 127.0.0.1, on ::1, or on every address. Raises
        ``ConnectionRefusedError`` if nothing listens, ``TimeoutError``, ``JobError`` if the sandbox has the host's
        network, and ``SandboxClosed``.

            with sandbox.connect(8000) as stream:
                stream.sendall(b"ping")
                print(stream.recv(100))
        """
        number, seconds = _checked(port, lowest=1), checked_seconds("timeout", timeout)
        if self.policy.network == "host":
            raise JobError(
                f"connect({number}): the sandbox has the host's network, so the port would be one of the host; "
                f"make the sandbox with network='none' or a Network(allow=[...])"
            )
        most = self.policy.limits.figure(Guarantee.WALL_TIME)
        plan = self._limits.of_call(timeout=seconds if most is None else min(seconds, most))
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                job, broker = job_from_command(["connect"]), theirs.fileno()
                with self._exec(job, plan, "", broker=broker, port=number) as (send_queue, connection):
                    for _ in blocking.events(send_queue, connection, None):
                        pass
                    result = self._concluded(send_queue)
            if result.exit_code != 0:
                raise _error(number, seconds, result)
            stream = _received(ours, number)
            stream._used = self._touch
            return stream

    def forward(self, port: int, host_port: int = 0) -> Forward:
        """Listen on 127.0.0.1 of this host, and lead every connection to ``port`` of the sandbox, until its end.

        ``host_port`` is the port to listen on; 0 takes a free one. Up to 64 connections are open at a time; further
        ones wait. Every user of this host can connect. Raises ``OSError`` if the port is taken, and what ``connect``
        raises for arguments; connections to a port where nothing listens are closed.

            with sandbox.forward(8000) as forward:
                print(urllib.request.urlopen(forward.url).read())
        """
        number, host_port = _checked(port, lowest=1), _checked(host_port, lowest=0)
        self._check_open()
        if self.policy.network == "host":
            raise JobError(
                f"forward({number}): the sandbox has the host's network, so its ports are the host's already"
            )
        made = Forward(self.connect, number, host_port)
        self._stack.callback(made.close)
        return made

    def _touch(self) -> None:
        """Tell the warden, once a second at most, that the sandbox is in use."""
        now = time.monotonic()
        if now >= self._touched + _TOUCH_SECONDS:
            self._touched = now
            with self._send_queue.locked() as exchange:
                if exchange is not None:
                    exchange.ask("touch")


class Relay:
    """Leads every connection to ``listener``, a socket of this host, to a port of a sandbox, until ``close``."""

    def __init__(self, connect: Callable[[int], PortStream], port: int, listener: socket.socket) -> None:
        self._connect, self._guest_port, self._listener = connect, port, listener
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False
        threading.Thread(target=self._accept, name="stockade-forward", daemon=True).start()

    def close(self) -> None:
        """Stop listening, and close all connections."""
        with self._lock:
            self._closed = True
            for sock in (self._listener, *self._open):
                _shut(sock)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            self._free.acquire()
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="stockade-forward", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client:
                if self._remember(client):
                    with self._connect(self._guest_port) as guest:
                        if self._remember(guest):
                            _relay(client, guest)
                        self._forget(guest)
        except SandboxClosed:
            self.close()
        except OSError:
            pass  # the client sees the end of its connection
        finally:
            self._forget(client)
            self._free.release()

    def _remember(self, sock: socket.socket) -> bool:
        """Remember a socket, so that ``close`` ends it; return ``False`` after ``close``."""
        with self._lock:
            if not self._closed:
                self._open.add(sock)
            return not self._closed

    def _forget(self, sock: socket.socket) -> None:
        with self._lock:
            self._open.discard(sock)


class Forward(Relay):
    """A port of this host that leads to a port of a sandbox. ``Sandbox.forward`` makes it; ``close`` ends it."""

    def __init__(self, connect: Callable[[int], PortStream], port: int, host_port: int) -> None:
        listener = socket.create_server(("127.0.0.1", host_port), backlog=_MOST_CONNECTIONS)
        self.host = "127.0.0.1"
        self.port: int = listener.getsockname()[1]
        super().__init__(connect, port, listener)

    @property
    def url(self) -> str:
        """The address for a web browser."""
        return f"http://{self.host}:{self.port}/"

    def __enter__(self) -> Forward:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening, and close all connections."""
        self.close()


def _received(ours: socket.socket, port: int) -> PortStream:
    """Return the socket that came out of the sandbox. Raises ``OSError`` unless it is a TCP connection to ``port``.

    Trusted code sends it, but from inside: a socket of another kind could bring descriptors along, or lead elsewhere.
    """
    data, fds, _, _ = socket.recv_fds(ours, 1, 1, socket.MSG_DONTWAIT)
    if not data or not fds:
        raise OSError(errno.EMFILE, "no descriptor was free for the connection")
    os.set_inheritable(fds[0], False)
    try:
        stream = PortStream(fileno=fds[0])
    except OSError:
        os.close(fds[0])
        raise _not_a_connection(port) from None
    if not _leads_to(port, stream):
        stream.close()
        raise _not_a_connection(port)
    stream.settimeout(None)
    return stream


def _leads_to(port: int, stream: socket.socket) -> bool:
    """Ask the kernel, which no guest can deceive, what a socket is and where it leads."""
    domain, kind, protocol = (
        stream.getsockopt(socket.SOL_SOCKET, option)
        for option in (socket.SO_DOMAIN, socket.SO_TYPE, socket.SO_PROTOCOL)
    )
    if (kind, protocol) != (socket.SOCK_STREAM, socket.IPPROTO_TCP) or domain not in _LOOPBACK:
        return False
    try:
        return bool(stream.getpeername()[:2] == (_LOOPBACK[domain], port))
    except OSError:  # it listens, or is not connected
        return False


def _not_a_connection(port: int) -> OSError:
    return OSError(errno.EPROTO, f"port {port} of the sandbox: what came out of it is no TCP connection to that port")


def _relay(client: socket.socket, guest: socket.socket) -> None:
    """Relay both directions to their ends."""
    back = threading.Thread(target=_pump, args=(guest, client), name="stockade-forward", daemon=True)
    back.start()
    _pump(client, guest)
    back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Relay one direction: at most one piece waits here, so a slow reader slows down the writer."""
    try:
        while data := source.recv(_PIECE):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # one side is gone, so the other one has nobody to speak with
        _shut(source)
        _shut(target)


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        sock.shutdown(socket.SHUT_RDWR)


def _checked(port: int, *, lowest: int) -> int:
    if isinstance(port, bool) or not isinstance(port, int) or not lowest <= port <= 0xFFFF:
        raise JobError(f"port = {port!r}: a port is a number from {lowest} to 65535")
    return port


def _error(port: int, seconds: float, result: Result) -> OSError:
    """Return why the port could not be reached."""
    if result.limit is not None:
        return TimeoutError(f"port {port} of the sandbox: no connection in {seconds:g} s")
    if result.exit_code is None or result.exit_code not in errno.errorcode:
        return OSError(errno.ECONNABORTED, f"port {port} of the sandbox: {result.summary()}")
    number = result.exit_code
    why = _REFUSED if number == errno.ECONNREFUSED else os.strerror(number)
    return OSError(number, f"port {port} of the sandbox: {why}")
