"""Frames of the session agent: how it speaks with its caller and its interpreters. See ``session_agent.py``.

Python 3.8 or newer, standard library only.
"""

from __future__ import annotations

import errno
import json
import os
from _socket import AF_UNIX, MSG_DONTWAIT, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket
from sys import byteorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PIECE = 64 * 1024
_LONGEST_FRAME = 64 << 20


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """Return one frame."""
    return kind + len(payload).to_bytes(4, "big") + payload


def read_some(fd: int) -> bytes | None:
    """Return what a descriptor holds, ``b""`` at its end, or ``None`` if it holds nothing now."""
    try:
        return os.read(fd, _PIECE)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno == errno.EIO:
            return b""
        raise


def send_descriptors(fd: int, descriptors: list[int]) -> None:
    """Send descriptors with one byte over a Unix socket. Raises ``OSError``, also if that would wait."""
    connection = socket(AF_UNIX, SOCK_STREAM, 0, fd)
    try:
        data = b"".join(each.to_bytes(4, byteorder) for each in descriptors)
        connection.sendmsg([b"+"], [(SOL_SOCKET, SCM_RIGHTS, data)], MSG_DONTWAIT)
    finally:
        connection.detach()


class Writer:
    """Writes to a descriptor without waiting, and keeps what it does not take yet.

    The agent waits for no single process: that one may wait for the agent.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.waiting = bytearray()

    def write(self, data: bytes = b"") -> None:
        """Write as much as the descriptor takes now. If nobody reads from it any more, drop everything."""
        self.waiting += data
        try:
            while self.waiting:
                del self.waiting[: os.write(self.fd, self.waiting)]
        except BlockingIOError:
            pass
        except OSError:
            self.waiting.clear()  # its reader has ended, and the agent notices


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the frames that ``data`` completes. Raises ``ValueError`` for a frame that is too long."""
        self._buffer += data
        found = []
        while len(self._buffer) >= 5:
            length = int.from_bytes(self._buffer[1:5], "big")
            if length > _LONGEST_FRAME:
                raise ValueError("a frame is too long")
            if len(self._buffer) < 5 + length:
                break
            found.append((bytes(self._buffer[:1]), bytes(self._buffer[5 : 5 + length])))
            del self._buffer[: 5 + length]
        return found


class Codec(Frames):
    """How an interpreter that knows frames is spoken to."""

    first = b""
    tells_begin = True

    def request(self, request: dict[str, Any]) -> bytes:
        """Return the bytes that begin a cell."""
        return frame(b"R", json.dumps(request).encode())
