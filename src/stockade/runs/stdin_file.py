"""Standard input that comes from a file, so that a guest may have it as a file: it can seek, map and measure it."""

from __future__ import annotations

import io
import os
import stat
from typing import BinaryIO, cast

from stockade.core.errors import JobError

MOST_BYTES = 16 << 20
"""A larger file is a pipe for the guest."""


class FileContent(bytes):
    """The content of a file, or the rest of it. Where a guest cannot have it as a file, a pipe delivers it."""


class _Unowned(io.FileIO):
    """A file that nobody closes by name: a run may end before it has read all of its input."""

    def __del__(self) -> None:
        """Close the file, without the warning that an open one causes."""
        self.close()


def named(path: str | os.PathLike[str]) -> FileContent | BinaryIO:
    """Return the content of the regular file at ``path``, or the open file if that is large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise JobError(f"stdin: {path}: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise JobError(f"stdin: {path}: not a regular file; open it yourself, and pass the open file")
    file = cast("BinaryIO", _Unowned(fd))
    content = opened(file)
    if isinstance(content, FileContent):
        file.close()
    return content


def opened(file: BinaryIO) -> FileContent | BinaryIO:
    """Return the rest of an open regular file, or the ``file`` itself if that is large, or anything else."""
    if isinstance(file, io.TextIOBase) or not _is_regular(file):
        return file
    at = file.tell()
    if os.fstat(file.fileno()).st_size - at > MOST_BYTES:
        return file
    content = b""
    while len(content) <= MOST_BYTES and (piece := file.read(MOST_BYTES + 1 - len(content))):
        content += piece
    if len(content) <= MOST_BYTES:
        return FileContent(content)
    file.seek(at)
    return file


def _is_regular(file: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.seekable()
    except (AttributeError, OSError, ValueError):
        return False  # a file of Python's alone, such as io.BytesIO
