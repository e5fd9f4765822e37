"""Write a file from a sandbox below a folder of the host: new, plain, and never through a link."""

from __future__ import annotations

import os
from contextlib import suppress

from stockade.linux import beneath

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def land(folder: int, path: str, content: bytes, mode: int = 0o644) -> None:
    """Write ``content`` to ``path`` below the open ``folder``, and create missing folders on the way.

    The only bit of ``mode`` that is kept is the right to execute. Raises ``FileExistsError`` if the path exists, and
    another ``OSError`` if a part of the path is a link.
    """
    outer, _, name = path.rpartition("/")
    place = _made(folder, outer)
    try:
        fd = os.open(name, _NEW, 0o777 if mode & 0o100 else 0o666, dir_fd=place)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
    finally:
        os.close(place)


def _made(folder: int, path: str) -> int:
    place = os.dup(folder)
    for part in path.split("/") if path else ():
        outer = place
        try:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=outer)
            place = beneath.open_at(outer, part, os.O_RDONLY | os.O_DIRECTORY)
        finally:
            os.close(outer)
    return place
