"""Reading a ceiling's file, and whether it can be trusted. A file that is there and cannot be read stops everything."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from stockade.core.errors import FieldProblem, PolicyError

SYSTEM = "/etc/stockade/policy.toml"
"""The administrator's ceiling. Nothing names another place, or whoever sets it could look away from this one."""
_MOST_LINKS = 40  # as many as the kernel follows: path_resolution(7)


def administrators() -> str | None:
    """Return what the administrator's ceiling says, ``None`` if there is none. Only root may be able to change it."""
    try:
        Path(SYSTEM).lstat()
    except FileNotFoundError:
        return None
    except OSError:
        pass  # whether it is there cannot be told, so it counts as there and unreadable
    return _read(SYSTEM, {0})


def callers(path: str) -> str:
    """Return what the ceiling says that a caller names; root or the caller himself may be able to change it."""
    return _read(path if path.startswith("/") else f"{Path.cwd()}/{path}", {0, os.geteuid()})


def unusable(path: str, reason: str) -> PolicyError:
    """Return the error about a ceiling that cannot be used."""
    return PolicyError([FieldProblem("ceiling", path, f"{reason}; nothing runs until it is put right")])


def _read(path: str, owners: set[int]) -> str:
    try:
        for name in _passed(path):
            _check(name, path, owners)
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise unusable(path, f"cannot be read: {reason}") from None


def _check(name: Path, path: str, owners: set[int]) -> None:
    """Refuse what others than the owners can change: the file, or a folder or link on the way to it."""
    status = name.lstat()
    whose = "root" if owners == {0} else "root or the caller"
    if status.st_uid not in owners:
        raise unusable(path, f"{name} belongs to uid {status.st_uid}, and only {whose} may be able to change a ceiling")
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX  # only an owner renames and deletes there
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky and not stat.S_ISLNK(status.st_mode):
        raise unusable(
            path, f"{name} can be written by others (mode {stat.S_IMODE(status.st_mode):04o}): chmod go-w {name}"
        )


def _passed(path: str) -> Iterator[Path]:
    """Yield every folder, link and file that opening ``path`` goes through."""
    at, left, links = Path("/"), path.split("/")[::-1], 0
    while left:
        name = left.pop()
        if name in ("", ".", ".."):
            at = at.parent if name == ".." else at
            continue
        here = at / name
        yield here
        if not here.is_symlink():
            at = here
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = str(here.readlink())
        at = Path("/") if target.startswith("/") else at
        left += target.split("/")[::-1]
