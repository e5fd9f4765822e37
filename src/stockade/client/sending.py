"""Sending on a socket without ever waiting, whatever library has replaced the ``socket`` module."""

from __future__ import annotations

import _socket
import socket

_NOW = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)  # put together once: that is Python code (``enum``)


def send_now(sock: socket.socket, data: bytes | bytearray) -> int:
    """Send what ``sock`` takes now and return how much that was; raise ``BlockingIOError`` if it takes nothing.

    A socket of gevent or eventlet waits in its own way where the kernel says that it would, and ignores
    ``MSG_DONTWAIT``: such a socket gets a timeout of 0 for the call.
    """
    if isinstance(sock, _socket.socket):
        return sock.send(data, _NOW)
    timeout = sock.gettimeout()
    sock.settimeout(0.0)
    try:
        return sock.send(data)
    finally:
        sock.settimeout(timeout)
