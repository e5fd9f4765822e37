"""Sockets to the warden: made as pairs, checked, and written to without waiting.

``send_now`` never waits, even if a library has replaced the ``socket`` module.
"""

from __future__ import annotations

import _socket
import fcntl
import select
import socket
import sys
import termios

from stockade.core.errors import SetupError
from stockade.linux import faults

_NOW = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)  # computed once, because ``enum`` is slow Python code


def send_now(sock: socket.socket, data: bytes | bytearray) -> int:
    """Send as many bytes as ``sock`` takes now and return their number. Raises ``BlockingIOError`` if it takes none.

    A socket of gevent or eventlet ignores ``MSG_DONTWAIT`` and waits in its own way. Such a socket gets a timeout of 0
    for the call.
    """
    if isinstance(sock, _socket.socket):
        return sock.send(data, _NOW)
    timeout = sock.gettimeout()
    sock.settimeout(0.0)
    try:
        return sock.send(data)
    finally:
        sock.settimeout(timeout)


def is_hung_up(sock: socket.socket) -> bool:
    """Return whether the other end of ``sock`` is closed. It must have nothing to send now."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def has_unread(sock: socket.socket) -> bool:
    """Return whether the other side has not read all that was sent over ``sock`` (unix(7), SIOCOUTQ)."""
    count = fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(count, sys.byteorder) > 0


def make_pair() -> tuple[socket.socket, socket.socket]:
    """Return two joined sockets. Neither has the number of a standard stream, because those of the warden replace it.

    Raises ``SetupError`` if no descriptor is free.
    """
    made: list[socket.socket] = []
    pair: tuple[socket.socket, ...] = ()
    try:
        pair = socket.socketpair()
        for end in pair:
            made.append(socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3)))
    except OSError as error:
        for end in made:
            end.close()
        raise SetupError(faults.explain("make a socket to the warden", error)) from error
    finally:
        for end in pair:
            end.close()
    ours, theirs = made
    ours.setblocking(True)  # the caller may have changed the default (socket.setdefaulttimeout)
    return ours, theirs
