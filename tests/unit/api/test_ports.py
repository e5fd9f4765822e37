"""A connection to a port of a sandbox is checked before use: the descriptor comes out of the sandbox."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stockade.api import ports


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def forged(kind: str, port: int, stack: ExitStack) -> int:
    """Return a descriptor of anything but a connection to ``port``."""
    if kind == "file":
        return os.open(os.devnull, os.O_RDWR)
    if kind == "local stream":
        ours, theirs = socket.socketpair()
        stack.enter_context(theirs)
        return ours.detach()
    made = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM if kind == "datagrams" else socket.SOCK_STREAM))
    if kind == "another port":
        other = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        made.connect(other.getsockname())
    elif kind == "another address":
        other = stack.enter_context(socket.create_server(("127.0.0.2", port)))
        made.connect(other.getsockname())
    elif kind == "datagrams":
        made.connect(("127.0.0.1", port))
    elif kind == "listener":
        made.listen()
    return os.dup(made.fileno())


def received(fd: int, port: int) -> ports.PortStream:
    """Receive a descriptor as ``connect`` does."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(theirs, [b"S"], [fd])
        os.close(fd)
        return ports._received(ours, port)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    "kind", ["file", "local stream", "datagrams", "not connected", "listener", "another port", "another address"]
)
def test_only_a_connection_to_the_port_is_accepted(listener: socket.socket, kind: str) -> None:
    port = listener.getsockname()[1]
    with ExitStack() as stack:
        fd = forged(kind, port, stack)
        before = open_descriptors()
        with pytest.raises(OSError, match=f"port {port} of the sandbox: what came out of it is no TCP") as refused:
            received(fd, port)
        assert refused.value.errno == errno.EPROTO
        assert open_descriptors() == before - 1


def test_connection_to_the_port_is_taken(listener: socket.socket) -> None:
    with ExitStack() as stack:
        made = stack.enter_context(socket.create_connection(listener.getsockname()))
        server = stack.enter_context(listener.accept()[0])
        stream = stack.enter_context(received(os.dup(made.fileno()), listener.getsockname()[1]))
        server.sendall(b"x")
        assert stream.recv(1) == b"x"
        assert not stream.get_inheritable()
