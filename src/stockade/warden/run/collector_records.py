"""The records that a collector writes and a caller reads: one for each file or folder, with lengths first.

The bytes come from a guest's folder, so nothing here is ever executed, imported or unpickled.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FILE, LINK, FOLDER, FRESH_FOLDER, DELETED, REFUSED, END = b"F", b"L", b"D", b"O", b"X", b"R", b"E"
"""A fresh folder hides everything that lay below its name before. END carries the reason of a failure, or nothing."""
KINDS = (FILE, LINK, FOLDER, FRESH_FOLDER, DELETED, REFUSED, END)
_HEADER = struct.Struct(">cIIQ")
LONGEST_PATH = 1 << 15
LONGEST_WORDS = 1 << 13


class RecordError(Exception):
    """The collector sent invalid bytes, or more than the caller asked for."""


def pack(kind: bytes, path: bytes = b"", mode: int = 0, body: bytes = b"") -> bytes:
    """Return one record. The body is a file's content, a link's target, or the reason of a refusal."""
    return _HEADER.pack(kind, mode, len(path), len(body)) + path + body


class Unpacker:
    """Decodes bytes into records. Accepts at most ``file_bytes`` of one file and ``total_bytes`` of all."""

    def __init__(self, file_bytes: int, total_bytes: int) -> None:
        self._buffer = bytearray()
        self._file_bytes = file_bytes
        self._left = total_bytes

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes, int, bytes]]:
        """Add ``data``, and yield kind, path, mode and body of each complete record.

        Raises ``RecordError`` if a header is invalid or announces too much.
        """
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
