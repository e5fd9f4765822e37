"""The form of a snapshot, and the check that every frame of one passes: when it is taken, and when it is opened."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from stockade.api.sessions.link import Frames, frame
from stockade.api.sessions.records import decoded
from stockade.core.errors import StockadeError

LONGEST_FRAME = 1 << 20
MOST_ENTRIES = 200_000
MOST_BYTES = 1 << 30
_LONGEST_ENTRY = 1 << 16
_LONGEST_PATH = 4096
_LONGEST_NAME = 255
_DEPTH = 140
_MAGIC = b"stockade-snapshot 1 "
_HEAD = 64
_PIECE = 1 << 18
_SLICE = 1 << 16
_ROOTS = 2
"""The workspace, and /tmp, which is also the home."""


class SnapshotRefused(StockadeError):
    """A snapshot is damaged, hostile or too large, is not found, or does not fit the sandbox."""


class Check:
    """Checks one frame after another. Whatever it lets through leads nowhere but into its own root."""

    def __init__(self, *, most_bytes: int = MOST_BYTES, most_entries: int = MOST_ENTRIES) -> None:
        self._most_bytes, self._most_entries = most_bytes, most_entries
        self._kinds: dict[tuple[int, str], bytes] = {}
        self._size = self._at = -1
        self.bytes = 0
        self.ended = False

    @property
    def entries(self) -> int:
        """The number of files, folders and links so far."""
        return len(self._kinds)

    @property
    def roots(self) -> set[int]:
        """The numbers of the roots that have entries."""
        return {root for root, _ in self._kinds}

    def take(self, kind: bytes, payload: bytes) -> None:
        """Check one frame. Raises ``SnapshotRefused``."""
        try:
            if self.ended:
                raise ValueError("something follows its end")
            if kind == b"b":
                self._data(payload)
            elif kind == b".":
                self.ended = True
            elif kind in (b"d", b"f", b"l", b"h"):
                self._entry(kind, payload)
            else:
                raise ValueError("it holds an entry of an unknown kind")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SnapshotRefused(f"the snapshot is refused: {error}") from None

    def _data(self, payload: bytes) -> None:
        begin, size = int.from_bytes(payload[:8], "big"), len(payload) - 8
        if size <= 0 or not self._at <= begin <= self._size - size:
            raise ValueError("content lies outside of its file")
        self._at = begin + size
        self.bytes += size
        if self.bytes > self._most_bytes:
            raise ValueError(f"its files hold more than {self._most_bytes} bytes")

    def _entry(self, kind: bytes, payload: bytes) -> None:
        self._size = self._at = -1
        if len(payload) > _LONGEST_ENTRY:
            raise ValueError("an entry is too long")
        about = decoded(payload)
        root, path = about["in"], about["path"]
        self._place(root, path)
        if not _is_number(about["mode"], 0o777) or not _is_number(about["at"], 1 << 63):
            raise ValueError(f"{path[:80]!r} has a mode or a time that is refused")
        self._kinds[root, path] = kind
        if len(self._kinds) > self._most_entries:
            raise ValueError(f"it has more than {self._most_entries} entries")
        if kind == b"f":
            if not _is_number(about["size"], 1 << 62):
                raise ValueError(f"{path[:80]!r} has no size")
            self._size, self._at = about["size"], 0
        elif kind == b"l":
            target = about["target"]
            if not isinstance(target, str) or not 0 < len(target) < _LONGEST_PATH or "\0" in target:
                raise ValueError(f"{path[:80]!r} has no target")
        elif kind == b"h" and self._kinds.get(tuple(about["target"])) != b"f":
            raise ValueError(f"{path[:80]!r} is a further name of what is no file of the snapshot")

    def _place(self, root: Any, path: Any) -> None:
        if not _is_number(root, _ROOTS - 1) or not isinstance(path, str) or len(path) >= _LONGEST_PATH:
            raise ValueError("an entry has no place")
        parts = path.split("/")
        if any(part in ("", ".", "..") or "\0" in part or len(part) > _LONGEST_NAME for part in parts):
            raise ValueError(f"{path[:80]!r} leads outside")
        if len(parts) > _DEPTH or (len(parts) > 1 and self._kinds.get((root, path.rpartition("/")[0])) != b"d"):
            raise ValueError(f"{path[:80]!r} lies in what is no folder of the snapshot")
        if (root, path) in self._kinds:
            raise ValueError(f"{path[:80]!r} comes twice")


def _is_number(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def checked(frames: Iterable[tuple[bytes, bytes]], check: Check) -> Iterator[tuple[bytes, bytes]]:
    """Yield frames, each of them checked, up to the last one. Raises ``SnapshotRefused``."""
    for kind, payload in frames:
        check.take(kind, payload)
        yield kind, payload
    if not check.ended:
        raise SnapshotRefused("the snapshot is refused: it is cut off")


def batches(frames: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """Yield checked frames as bytes, many at a time."""
    waiting = bytearray()
    for kind, payload in frames:
        waiting += frame(kind, payload)
        if len(waiting) >= _PIECE or kind == b".":
            yield bytes(waiting)
            waiting.clear()


def packed(frames: Iterable[tuple[bytes, bytes]], check: Check) -> bytes:
    """Return the snapshot that ``frames`` make. Raises ``SnapshotRefused``."""
    squeeze, parts = zlib.compressobj(1), [b""]
    for kind, payload in checked(frames, check):
        parts.append(squeeze.compress(frame(kind, payload)))
    parts.append(squeeze.flush())
    parts[0] = _MAGIC + b"%d %d\n" % (check.entries, check.bytes)
    return b"".join(parts)


def unpacked(data: bytes, *, most_bytes: int = MOST_BYTES) -> Iterator[tuple[bytes, bytes]]:
    """Yield the frames of a snapshot, each of them checked.

    The head says how much it holds, which is bounded before anything is decompressed; and no more than that is.
    """
    head = data[:_HEAD].partition(b"\n")[0]
    numbers = head.removeprefix(_MAGIC).split()
    if not head.startswith(_MAGIC) or len(numbers) != 2 or not all(each.isdigit() for each in numbers):
        raise SnapshotRefused("the snapshot is refused: it does not begin as one")
    entries, size = map(int, numbers)
    if size > most_bytes or entries > MOST_ENTRIES:
        raise SnapshotRefused(
            f"the snapshot is refused: it holds {size} bytes in {entries} entries, and this sandbox takes {most_bytes} "
            f"bytes in {MOST_ENTRIES}; raise its limit on the disk"
        )
    check, frames = Check(most_bytes=size, most_entries=entries), Frames(LONGEST_FRAME)
    for piece in _inflated(data[len(head) + 1 :]):
        frames.add(piece)
        try:
            while found := frames.next():
                check.take(*found)
                yield found
        except ValueError as error:
            raise SnapshotRefused(f"the snapshot is refused: {error}") from None
    if not check.ended or (check.entries, check.bytes) != (entries, size):
        raise SnapshotRefused("the snapshot is refused: it is cut off, or holds less than it says")


def _inflated(data: bytes) -> Iterator[bytes]:
    """Yield decompressed pieces, none of them longer than ``_PIECE``."""
    stretch = zlib.decompressobj()
    try:
        for at in range(0, len(data), _SLICE):
            rest = data[at : at + _SLICE]
            if stretch.eof:
                raise SnapshotRefused("the snapshot is refused: something follows its end")
            while rest and not stretch.eof:
                yield stretch.decompress(rest, _PIECE)
                rest = stretch.unconsumed_tail
    except zlib.error:
        raise SnapshotRefused("the snapshot is refused: it is damaged") from None
    if stretch.unused_data or not stretch.eof:
        raise SnapshotRefused("the snapshot is refused: it is cut off, or something follows its end")
