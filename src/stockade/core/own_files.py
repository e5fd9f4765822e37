"""Files of this user's own: where they are kept, and whether anybody else could change them."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache(name: str) -> Path:
    """Return this user's folder ``name``: below XDG_CACHE_HOME, ``/var/cache`` (root) or ``~/.cache``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if named.startswith("/"):
        return Path(named, "stockade", name)
    return Path("/var/cache" if os.geteuid() == 0 else "~/.cache", "stockade", name).expanduser()


def trouble(path: Path, kind: int, owners: Collection[int]) -> str:
    """Return the reason why others could change ``path`` or what is in it; an empty text if only ``owners`` can.

    ``kind`` is ``stat.S_IFDIR`` or ``stat.S_IFREG``. In a folder with the sticky bit, such as ``/tmp``, nobody can
    replace what belongs to another user. Raises ``OSError`` if ``path`` does not exist.
    """
    status = path.lstat()
    if stat.S_IFMT(status.st_mode) != kind or status.st_uid not in owners:
        what = "folder" if kind == stat.S_IFDIR else "file"
        return f"it is not a {what} of uid {os.geteuid()}{' or of root' if 0 in owners else ''}"
    is_sticky = kind == stat.S_IFDIR and status.st_mode & stat.S_ISVTX
    if status.st_mode & _OF_OTHERS and not is_sticky:
        return f"others may write to it (mode {stat.S_IMODE(status.st_mode):o})"
    return ""
