"""Read the files of a zip or tar archive in the caller's memory, and never unpack them anywhere else.

A name that leads outside, a link, a device or a bomb is refused with the reason, before anything starts.

The bytes may be hostile, and Python's own ``zipfile`` and ``tarfile`` parse them in this process. Both are written in
Python, over ``zlib``, ``bz2`` and ``lzma``. This module limits what they can waste: the archive's own size, the
entries, the unpacked bytes (no header is trusted), their ratio to the archive, and time.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stockade.core.errors import JobError

MIB = 1 << 20
MOST_PACKED = 64 * MIB
MOST_ENTRIES = 10_000
MOST_BYTES = 128 * MIB
MOST_RATIO = 200
"""The most bytes that one byte of the archive may become. A total of one mebibyte is always allowed."""
MOST_NAME = 1024
DEEPEST = 32
MOST_SECONDS = 20.0
_SMALL = 1 * MIB
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The methods that ``zipfile`` unpacks piece by piece. Of the others, a kilobyte can take gigabytes at once."""
_CHUNK = 1 << 16
_ZIP_ENTRY = b"PK\x01\x02"
_DRIVE = re.compile(r"[A-Za-z]:")
_BAD = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RuntimeError,
    ArithmeticError, LookupError, TypeError, AttributeError, MemoryError,
)  # fmt: skip
_DECOMPRESSORS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))


@dataclass(frozen=True)
class Bounds:
    """The most that an archive may hold, and take to unpack."""

    entries: int = MOST_ENTRIES
    bytes: int = MOST_BYTES
    seconds: float = MOST_SECONDS


def unpack(archive: bytes | os.PathLike[str] | str, bounds: Bounds | None = None) -> dict[str, bytes]:
    """Return the files in an archive, by relative name. Empty folders and modes are left out.

    The first bytes distinguish zip, tar, and tar packed with gzip, bzip2 or xz. Raises ``JobError``.
    """
    packed, shown = _packed(archive)
    budget = _Budget(len(packed), shown, bounds or Bounds())
    files: dict[str, bytes] = {}
    try:
        entries = _zip(packed, budget) if packed[:2] == b"PK" else _tar(packed, budget)
        for name, content in entries:
            budget.name(name, files)
            files[name] = content
    except JobError:
        raise
    except _BAD as error:
        raise JobError(f"archive {shown}: cannot be read: {error or type(error).__name__}") from None
    return files


def _packed(archive: bytes | os.PathLike[str] | str) -> tuple[bytes, str]:
    if isinstance(archive, bytes | bytearray | memoryview):
        packed, shown = bytes(archive), "(bytes)"
    else:
        shown = os.fspath(archive)
        try:
            with Path(archive).open("rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise JobError(f"archive {shown}: is not a regular file")
                packed = file.read(MOST_PACKED + 1)
        except OSError as error:
            raise JobError(f"archive {shown}: {error.strerror}") from None
    if len(packed) > MOST_PACKED:
        raise JobError(f"archive {shown}: is larger than {MOST_PACKED // MIB} MiB")
    return packed, shown


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Budget:
    """The remainder of each limit."""

    def __init__(self, packed: int, shown: str, bounds: Bounds) -> None:
        self._shown, self.bounds = shown, bounds
        self._entries = bounds.entries
        self._bytes = min(bounds.bytes, max(MOST_RATIO * packed, _SMALL))
        self._until = time.monotonic() + bounds.seconds
        self._folders: set[str] = set()

    def refuse(self, why: str) -> JobError:
        """Return the error with the reason ``why``."""
        return JobError(f"archive {self._shown}: {why}")

    def entry(self) -> None:
        """Count an entry of any type."""
        self._entries -= 1
        if self._entries < 0:
            raise self.refuse(f"holds more than {self.bounds.entries} entries")
        self.clock()

    def clock(self) -> None:
        """Raise ``JobError`` when unpacking takes too long."""
        if time.monotonic() > self._until:
            raise self.refuse(f"took more than {self.bounds.seconds:g} s to unpack")

    def read(self, file: _Readable) -> bytes:
        """Read an entry to its end, regardless of the size in its header."""
        pieces = []
        while piece := file.read(_CHUNK):
            self.take(len(piece))
            pieces.append(piece)
        return b"".join(pieces)

    def take(self, count: int) -> None:
        """Count unpacked bytes."""
        self._bytes -= count
        if self._bytes < 0:
            raise self.refuse(
                f"unpacks to more than {self.bounds.bytes // MIB} MiB, or {MOST_RATIO} times its own size"
            )
        self.clock()

    def name(self, name: str, files: dict[str, bytes]) -> None:
        """Refuse a name that is invalid, leads outside, or exists already."""
        why = _wrong(name)
        if why:
            raise self.refuse(f"{name[:80]!r} {why}")
        parts = name.split("/")
        outer = ["/".join(parts[:count]) for count in range(1, len(parts))]
        if name in files or name in self._folders or any(each in files for each in outer):
            raise self.refuse(f"{name!r} appears twice, or as a file and a folder")
        self._folders.update(outer)


def _wrong(name: str) -> str:
    parts = name.split("/")
    if not name or name.startswith("/") or {"", ".", ".."} & set(parts):
        return "is not a relative name without '..'"
    if "\0" in name or "\\" in name or _DRIVE.match(name) or not name.isprintable():
        return "has a NUL, a backslash, a drive letter or an unprintable character"
    if len(parts) > DEEPEST:
        return f"lies deeper than {DEEPEST} folders"
    try:
        raw = name.encode()
    except UnicodeEncodeError:
        return "is not UTF-8"
    too_long = len(raw) > MOST_NAME or any(len(part.encode()) > 255 for part in parts)
    return f"is longer than {MOST_NAME} bytes, or 255 between slashes" if too_long else ""


def _zip(packed: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    if packed.count(_ZIP_ENTRY) > budget.bounds.entries:  # check before zipfile builds a list of them
        raise budget.refuse(f"holds more than {budget.bounds.entries} entries")
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        for info in archive.infolist():
            budget.entry()
            mode = info.external_attr >> 16
            if info.flag_bits & 0x1:
                raise budget.refuse(f"{info.filename[:80]!r} is encrypted")
            if info.compress_type not in _METHODS:
                raise budget.refuse(f"{info.filename[:80]!r} is packed by another method than deflate; pack it again")
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise budget.refuse(f"{info.filename[:80]!r} is a link or a device")
            if "\0" in info.orig_filename or "\\" in info.orig_filename:
                raise budget.refuse(f"{info.orig_filename[:80]!r} holds a NUL or a backslash")
            if info.is_dir():
                _check_folder(info.filename, budget)
                continue
            with archive.open(info) as file:
                yield info.filename, budget.read(file)


def _tar(packed: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    plain = _unpacked(packed, budget)
    with tarfile.open(fileobj=_Careful(plain), mode="r:") as archive:
        while (info := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # otherwise it would keep each
            budget.entry()
            if info.isdir():
                _check_folder(info.name, budget)
                continue
            if not info.isreg() or info.issparse():
                raise budget.refuse(f"{info.name[:80]!r} is a link, a device or a sparse file")
            file = archive.extractfile(info)
            content = b"" if file is None else _pieces(file)
            budget.clock()
            if len(content) != info.size:
                raise budget.refuse(f"{info.name[:80]!r} is cut off")
            yield info.name.removeprefix("./"), content
        if plain[archive.offset : archive.offset + tarfile.BLOCKSIZE].strip(b"\0"):
            raise budget.refuse("is damaged")  # otherwise the rest would be left out silently


def _pieces(file: _Readable) -> bytes:
    pieces = []
    while piece := file.read(_CHUNK):
        pieces.append(piece)
    return b"".join(pieces)


class _Careful(io.BytesIO):
    """A file for ``tarfile`` that refuses to read more at a time than one piece of content.

    Only headers are ever read in larger pieces. ``tarfile`` searches them with regular expressions that are slow in
    older versions of Python.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _CHUNK:
            raise tarfile.HeaderError(f"a header of {size} bytes")
        return super().read(size)


def _unpacked(packed: bytes, budget: _Budget) -> bytes:
    """Return the unpacked tar. Its total size is limited, so nothing in it can be larger."""
    decompressor = next((decompressor for mark, decompressor in _DECOMPRESSORS if packed.startswith(mark)), None)
    if decompressor is None:
        if packed[257:262] != b"ustar":
            raise budget.refuse("is neither zip nor tar, nor tar packed with gzip, bzip2 or xz")
        return packed
    with decompressor(io.BytesIO(packed), "rb") as file:
        return budget.read(file)


def _check_folder(name: str, budget: _Budget) -> None:
    plain = name.removeprefix("./").rstrip("/")
    why = _wrong(plain) if plain not in ("", ".") or name.startswith("/") else ""
    if why:
        raise budget.refuse(f"{name[:80]!r} {why}")
