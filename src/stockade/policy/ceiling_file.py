"""Read the file of a ceiling, and check that it can be trusted. An existing but unreadable file stops every run."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from stockade.core.errors import FieldProblem, PolicyError

SYSTEM = "/etc/stockade/policy.toml"
"""The administrator's ceiling. The path is fixed: a caller that could change it could avoid the ceiling."""
_MOST_LINKS = 40  # as many as the kernel follows: path_resolution(7)


def administrators() -> str | None:
    """Return the text of the administrator's ceiling, or ``None``. Only root may be able to change the file."""
    try:
        Path(SYSTEM).lstat()
    except FileNotFoundError:
        return None
    except OSError:
        pass  # its existence is unknown, so it counts as existing and unreadable
    return _read(SYSTEM, {0})


def callers(path: str) -> str:
    """Return the text of the ceiling that a caller names. Only root or this caller may be able to change the file."""
    return _read(path if path.startswith("/") else f"{Path.cwd()}/{path}", {0, os.geteuid()})


def unusable(path: str, reason: str) -> PolicyError:
    """Return the error about a ceiling that cannot be used."""
    return PolicyError([FieldProblem("ceiling", path, f"{reason}; nothing runs until it is corrected")])


def _read(path: str, owners: set[int]) -> str:
    try:
        for name in _passed(path):
            _check(name, path, owners)
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise unusable(path, f"cannot be read: {reason}") from None


def _check(name: Path, path: str, owners: set[int]) -> None:
    """Refuse a file, or a folder or link on the way to it, that users other than the owners can change."""
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
    """Yield every folder, link and file that a process passes when it opens ``path``."""
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
