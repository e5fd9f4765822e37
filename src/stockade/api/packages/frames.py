"""Write the files that the unpacker lists. The list comes out of a sandbox, so each word of it is checked."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from stockade.api.packages.unpacker import HEADER

MOST_FILES = 100_000
LONGEST_NAME = 1024
DEEPEST = 40
_PLAIN, _EXECUTABLE = 0o444, 0o555
_STARTS_CODE = (".pth", ".start")
_CUSTOMIZES = ("sitecustomize", "usercustomize")


class Refused(Exception):
    """A wheel that must not be used. The text says why."""


@dataclass(frozen=True)
class Written:
    """A file of a wheel."""

    size: int
    digest: str


class Files:
    """Takes the unpacker's output in pieces of any size, and writes files below a new folder.

    Only names, contents and the permission to execute are taken over. All files are new, regular and read-only, so no
    link, device, set-id bit or overwritten file can come of it.
    """

    def __init__(self, folder: Path, *, most_bytes: int) -> None:
        """``folder`` must be empty, and nobody else may write to it."""
        self.written: dict[str, Written] = {}
        self.left_out: list[str] = []
        self._folder, self._bytes_left = folder, most_bytes
        self._waiting = b""
        self._open: _OpenFile | None = None
        self._name_length = -1
        self._ended = False

    def take(self, data: bytes) -> None:
        """Take the next piece. Raises ``Refused``."""
        while data:
            if self._open is not None:
                data = self._open.take(data)
                self._close_if_complete()
            elif self._ended:
                raise Refused("bytes follow the end of its files")
            else:
                data = self._take_head(data)

    def finish(self) -> None:
        """Raise ``Refused`` if the list is incomplete."""
        if not self._ended:
            raise Refused("the list of its files is cut off")

    def close(self) -> None:
        """Close the file that is being written, if any."""
        if self._open is not None:
            self._open.file.close()

    def _take_head(self, data: bytes) -> bytes:
        wanted = HEADER.size if len(self._waiting) < HEADER.size else HEADER.size + self._length()
        missing = wanted - len(self._waiting)
        self._waiting += data[:missing]
        if len(self._waiting) >= HEADER.size and len(self._waiting) == HEADER.size + self._length():
            self._begin()
        return data[missing:]

    def _length(self) -> int:
        length = int(HEADER.unpack_from(self._waiting)[0])
        if length > LONGEST_NAME:
            raise Refused(f"a name in it is longer than {LONGEST_NAME} bytes")
        return length

    def _begin(self) -> None:
        length, executable, size = HEADER.unpack_from(self._waiting)
        raw, self._waiting = self._waiting[HEADER.size :], b""
        if not length:
            self._ended = True
            return
        name = _checked(raw)
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise Refused("it unpacks to more bytes than its size permits")
        if len(self.written) >= MOST_FILES:
            raise Refused(f"it has more than {MOST_FILES:,} files")
        if starts_code(name):
            self.left_out.append(name)
            self._open = _OpenFile(name, size, open(os.devnull, "wb"))  # noqa: PTH123, SIM115
        else:
            self._open = _OpenFile(name, size, self._create(name, _EXECUTABLE if executable else _PLAIN))
        self._close_if_complete()

    def _create(self, name: str, mode: int) -> BinaryIO:
        path = self._folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except (FileExistsError, NotADirectoryError):
            raise Refused(f"{name!r:.120} appears twice, or as a file and a folder") from None
        os.fchmod(fd, mode)
        return os.fdopen(fd, "wb")

    def _close_if_complete(self) -> None:
        if self._open is not None and not self._open.left:
            self._open.file.close()
            if not starts_code(self._open.name):
                self.written[self._open.name] = Written(self._open.size, self._open.digest.hexdigest())
            self._open = None


class _OpenFile:
    def __init__(self, name: str, size: int, file: BinaryIO) -> None:
        self.name, self.size, self.left, self.file = name, size, size, file
        self.digest = hashlib.sha256()

    def take(self, data: bytes) -> bytes:
        """Write what belongs to this file; return the rest."""
        own = data[: self.left]
        self.file.write(own)
        self.digest.update(own)
        self.left -= len(own)
        return data[len(own) :]


def starts_code(name: str) -> bool:
    """Return whether an interpreter would run this file at its start, before any code imports it.

    The ``site`` module does so for some names in a folder ``site-packages``. In a warm interpreter, that would be
    before the guest's filter is in place.
    """
    parts = name.split("/")
    if len(parts) < 4 or parts[2] != "site-packages":
        return False
    own = parts[4] if parts[3] == "__pycache__" and len(parts) > 4 else parts[3]
    return own.endswith(_STARTS_CODE) or own.split(".")[0] in _CUSTOMIZES


def _checked(raw: bytes) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise Refused("a name in it is not UTF-8") from None
    parts = name.split("/")
    if {"", ".", ".."} & set(parts) or "\0" in name or "\\" in name or not name.isprintable():
        raise Refused(f"{name[:80]!r} leads outside of it, or is unprintable")
    if len(parts) > DEEPEST or any(len(part.encode()) > 255 for part in parts):
        raise Refused(f"{name[:80]!r} is too deep or too long")
    return name
