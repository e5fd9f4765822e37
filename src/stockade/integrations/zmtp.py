"""Checks what a kernel sends, before the library of ZeroMQ on this side parses it.

The library accepts a frame of any length, and older protocols than the kernel needs. The wire format is that of
https://rfc.zeromq.org/spec/23/ (ZMTP 3.0): a greeting of 64 bytes, and then frames.
"""

from __future__ import annotations

from collections.abc import Callable

from stockade.api.ports import PortStream

LONGEST_MESSAGE = 64 << 20
"""Bytes of a message, with all of its frames."""
_GREETING = 64
_MAJOR = 10  # where the version is
_MECHANISM = slice(12, 32)
_MORE, _LONG, _COMMAND = 1, 2, 4
_FRAME_COST = 128  # what a frame takes here besides its bytes, so that a message cannot have too many


class FrameCheck:
    """Follows one stream of frames. ``check`` raises ``ValueError`` where it breaks the rules."""

    def __init__(self, longest: int = LONGEST_MESSAGE) -> None:
        self._longest = longest
        self._greeting = bytearray()
        self._header = bytearray()
        self._body = 0  # bytes of the frame that are to come
        self._message = 0

    def check(self, data: bytes) -> None:
        """Check the next bytes of the stream."""
        at = 0
        if len(self._greeting) < _GREETING:
            at = _GREETING - len(self._greeting)
            self._greeting += data[:at]
            self._check_greeting()
        while at < len(data):
            if self._body:
                step = min(self._body, len(data) - at)
                self._body -= step
            else:
                step = 1
                self._header += data[at : at + 1]
                self._check_header()
            at += step

    def _check_greeting(self) -> None:
        greeting = bytes(self._greeting)
        signed = greeting[:1] in (b"", b"\xff") and greeting[9:10] in (b"", b"\x7f")
        if not signed or greeting[_MAJOR : _MAJOR + 1] not in (b"", b"\x03"):
            raise ValueError("a stream that does not begin as one of ZMTP 3")
        if len(greeting) == _GREETING and greeting[_MECHANISM] != b"NULL".ljust(20, b"\0"):
            raise ValueError("a security mechanism that the kernel was not started with")

    def _check_header(self) -> None:
        """Take in a frame whose header is complete: a byte of flags, and one or eight of the length."""
        flags = self._header[0]
        if flags > _MORE | _LONG | _COMMAND:
            raise ValueError(f"a frame with unknown flags: {flags:#x}")
        if len(self._header) < (9 if flags & _LONG else 2):
            return
        self._body = int.from_bytes(self._header[1:], "big")
        self._header.clear()
        before = 0 if flags & _COMMAND else self._message  # a command can come between the frames of a message
        whole = before + self._body + _FRAME_COST
        if whole > self._longest:
            raise ValueError(f"a message of more than {self._longest} bytes")
        if not flags & _COMMAND:
            self._message = whole if flags & _MORE else 0


class CheckedStream(PortStream):
    """A connection to a kernel that ends with the first byte that breaks the rules."""

    _check: Callable[[bytes], None]

    @classmethod
    def over(cls, stream: PortStream, check: Callable[[bytes], None]) -> CheckedStream:
        """Return ``stream`` with a check of all that comes from it."""
        used = stream._used
        made = cls(fileno=stream.detach())
        made._used, made._check = used, check
        return made

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Receive as ``socket.socket`` does. Raises ``OSError`` for bytes that the check refuses."""
        data = super().recv(size, flags)
        self._check(data)
        return data
