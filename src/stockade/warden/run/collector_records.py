"""What a collector writes and a caller reads: one record for each thing found, with lengths before everything.

Nothing here is ever executed, imported or unpickled: the bytes come from where a guest has been.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FILE, LINK, FOLDER, FRESH_FOLDER, DELETED, REFUSED, END = b"F", b"L", b"D", b"O", b"X", b"R", b"E"
"""A fresh folder hides whatever lay below its name before. The end says what went wrong, if anything did."""
KINDS = (FILE, LINK, FOLDER, FRESH_FOLDER, DELETED, REFUSED, END)
_HEADER = struct.Struct(">cIIQ")
LONGEST_PATH = 1 << 15
LONGEST_WORDS = 1 << 13


class RecordError(Exception):
    """What came is no parcel, or more than was asked for."""


def pack(kind: bytes, path: bytes = b"", mode: int = 0, body: bytes = b"") -> bytes:
    """Return one record; a file's body is its content, a link's its target, a refusal's the reason."""
    return _HEADER.pack(kind, mode, len(path), len(body)) + path + body


class Unpacker:
    """Collects bytes and gives whole records; never holds more than ``total`` bytes of content."""

    def __init__(self, file_bytes: int, total_bytes: int) -> None:
        self._buffer = bytearray()
        self._file_bytes = file_bytes
        self._left = total_bytes

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes, int, bytes]]:
        """Take ``data`` and yield kind, path, mode and body of each record; raise ``RecordError`` on nonsense."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            kind, mode, path_length, length = _HEADER.unpack_from(self._buffer)
            self._check(kind, path_length, length)
            begin = _HEADER.size + path_length
            if len(self._buffer) < begin + length:
                return
            path = bytes(self._buffer[_HEADER.size : begin])
            body = bytes(memoryview(self._buffer)[begin : begin + length])
            del self._buffer[: begin + length]
            if kind == FILE:
                self._left -= length
            yield kind, path, mode, body

    def _check(self, kind: bytes, path_length: int, length: int) -> None:
        most = min(self._file_bytes, self._left) if kind == FILE else LONGEST_WORDS
        if kind not in KINDS or path_length > LONGEST_PATH or length > most:
            raise RecordError(f"a record {kind!r} of {path_length} and {length} bytes")
