"""The process of an exec that connects to a port of the sandbox's own network, and gives the socket to the caller.

It runs no code of the guest and takes nothing from it but a TCP connection. It can only reach what the sandbox's
network holds. See ADR 85.
"""

from __future__ import annotations

import _socket as socket
import errno
import os

from stockade.warden.cold.instance import send_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SECONDS = 5.0
_ADDRESSES = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
"""Servers for development listen on either."""


def connect(port: int) -> NoReturn:
    """Send a socket that is connected to ``port`` over descriptor 0. The exit status is the errno, or 0."""
    number = errno.ECONNREFUSED
    for family, address in _ADDRESSES:
        try:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            sock.settimeout(_SECONDS)
            sock.connect((address, port))
        except OSError as error:
            number = errno.ETIMEDOUT if error.errno is None else error.errno
            if number not in (errno.ECONNREFUSED, errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENETUNREACH):
                os._exit(number)
            continue
        with_caller = socket.socket(fileno=0)
        try:
            send_with(with_caller, b"S", [sock.fileno()])
        except OSError as error:  # the caller has given up
            os._exit(error.errno or 1)
        os._exit(0)
    os._exit(errno.ECONNREFUSED)
