"""Read what TLS shows in the clear: the server's name in a ClientHello, and whether a server asks for a second one.

RFC 8446, 4.1.2 and 4.1.4; RFC 6066, 3. A second ClientHello can carry another name, and some servers follow it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA = 20, 21, 22, 23
_CLIENT_HELLO, _SERVER_HELLO = 1, 2
_SERVER_NAME, _HOST_NAME = 0, 0
_HEAD, _MOST_RECORD = 5, (1 << 14) + 2048
_MOST_HELLO = 1 << 16
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
UNRECOGNIZED_NAME = bytes((ALERT, 3, 3, 0, 2, 2, 112))
"""The alert that ends a connection whose name is wrong (RFC 6066, 3)."""


class TlsError(Exception):
    """The bytes are not the start of a TLS connection that the proxy lets through."""


class Records:
    """Splits a stream into TLS records."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
        """Take bytes, and yield each complete record: its type, its content and its own bytes."""
        self._buffer += data
        while len(self._buffer) >= _HEAD:
            kind, major, length = self._buffer[0], self._buffer[1], int.from_bytes(self._buffer[3:5], "big")
            if kind not in (CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA) or major != 3:
                raise TlsError("this is not TLS")
            if length > _MOST_RECORD:
                raise TlsError("a TLS record is too long")
            if len(self._buffer) < _HEAD + length:
                return
            whole = bytes(self._buffer[: _HEAD + length])
            del self._buffer[: _HEAD + length]
            yield kind, whole[_HEAD:], whole

    def rest(self) -> bytes:
        """Return the bytes that no complete record has yet, and forget them."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest


class Hello:
    """Collects one handshake message from the contents of records."""

    def __init__(self, kind: int = _CLIENT_HELLO) -> None:
        self._kind = kind
        self._data = bytearray()

    def feed(self, content: bytes) -> bytes | None:
        """Take a record's content; return the message's body once it is complete."""
        if not content:
            raise TlsError("a handshake record is empty")
        self._data += content
        if self._data[0] != self._kind:
            raise TlsError("a TLS connection must begin with a ClientHello")
        if len(self._data) < 4:
            return None
        length = int.from_bytes(self._data[1:4], "big")
        if length > _MOST_HELLO:
            raise TlsError("the ClientHello is too long")
        if len(self._data) > 4 + length:
            raise TlsError("something follows the ClientHello in its record")
        return bytes(self._data[4:]) if len(self._data) == 4 + length else None


class FirstAnswer:
    """Finds out from a server's first bytes whether it asks for a second ClientHello."""

    def __init__(self) -> None:
        self._records = Records()
        self._data = bytearray()

    def feed(self, data: bytes) -> bool | None:
        """Take bytes; return whether the server asks for a second ClientHello, or ``None`` if it is not known yet."""
        for kind, content, _ in self._records.feed(data):
            if kind in (ALERT, CHANGE_CIPHER_SPEC):
                continue  # an alert may be a warning, with an answer after it
            self._data += content
            if kind != HANDSHAKE or self._data[:1] not in (b"", bytes((_SERVER_HELLO,))):
                raise TlsError("the server's answer does not begin with a ServerHello")
            if len(self._data) >= 38:
                return bytes(self._data[6:38]) == _RETRY
        return None


class _Reader:
    """Reads the fields of a message, and never beyond it."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise TlsError("the ClientHello is cut off")
        found, self._at = self._data[self._at : end], end
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def block(self, size: int) -> _Reader:
        """Return a reader of a block behind its length of ``size`` bytes."""
        return _Reader(self.take(self.number(size)))

    @property
    def left(self) -> int:
        return len(self._data) - self._at


def server_name(body: bytes) -> str:
    """Return the name in the body of a ClientHello, in lower case. Raises ``TlsError`` unless there is exactly one."""
    hello = _Reader(body)
    hello.take(2 + 32)
    hello.block(1)
    hello.block(2)
    hello.block(1)
    if not hello.left:
        raise TlsError("the ClientHello has no server name")
    extensions = hello.block(2)
    if hello.left:
        raise TlsError("the ClientHello is too long")
    names = []
    while extensions.left:
        kind, content = extensions.number(2), extensions.block(2)
        if kind == _SERVER_NAME:
            names.append(_host_name(content))
    if len(names) != 1:
        raise TlsError("the ClientHello needs exactly one server name")
    return names[0]


def _host_name(extension: _Reader) -> str:
    names = extension.block(2)
    kind, name = names.number(1), names.block(2)
    text = name.take(name.left)
    if kind != _HOST_NAME or names.left or extension.left or not text.isascii():
        raise TlsError("the ClientHello needs exactly one server name")
    return text.decode("ascii").lower()
