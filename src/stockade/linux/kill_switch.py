"""The kill switch: a file whose lines end runs and refuse new ones, until it is removed.

Each line names the runs that it concerns:

- ``all``: every run.
- ``label NAME=VALUE``: runs with this label.
- ``sandbox ID``: a living sandbox, and everything in it.
- ``since SECONDS``: runs that began at or after this time, in seconds since the epoch.

A line that cannot be understood means ``all``: an operator who mistypes wants to stop something. Empty lines and lines
that begin with ``#`` mean nothing.
"""

from __future__ import annotations

import os
import stat

MACHINE = "/run/stockade/kill-switch"
"""The file for all accounts, which only root can write."""
_WAY = "'stockade kill --show' prints it, and 'stockade kill --lift' ends it"
ENDED = f"an operator ended the run by the kill switch: {_WAY}"
REFUSED = f"the kill switch is on, so the run did not start: {_WAY}"
_MOST_BYTES = 1 << 16


def own_path(uid: int) -> str:
    """Return the file for one account, in a folder that only this account can write."""
    if uid == 0:
        return MACHINE
    place = f"/run/user/{uid}"
    return f"{place}/stockade/kill-switch" if _owner(place) == uid else f"/tmp/stockade-{uid}/kill-switch"


class KillSwitch:
    """The kill switch as one warden sees it: the file of the machine, and that of its account."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths
        self._seen: tuple[tuple[int, int, int] | None, ...] = ()
        self.lines: tuple[str, ...] = ()

    def look(self) -> bool:
        """Read the files if they have changed. Return whether they name any run."""
        seen = tuple(map(_version, self._paths))
        if seen != self._seen:
            self._seen = seen
            self.lines = tuple(line for path in self._paths for line in read(path))
        return bool(self.lines)

    def concerns(self, labels: tuple[str, ...], sandbox: str, began: float) -> bool:
        """Return whether a line names a run with ``labels`` (``NAME=VALUE``), in ``sandbox`` or with an empty one."""
        return any(_concerns(line, labels, sandbox, began) for line in self.lines)


def read(path: str, *, comments: bool = False) -> list[str]:
    """Return the lines of a file that mean something, and its comments on request. A file of another account than root
    or this one means nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    except OSError:
        return ["all"] if _owner(path) in (0, os.geteuid()) else []
    try:
        status = os.fstat(fd)
        if status.st_uid not in (0, os.geteuid()):
            return []
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return ["all"]
        text = os.read(fd, _MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ["all"]
    finally:
        os.close(fd)
    return [line.strip() for line in text.split("\n") if line.strip() and (comments or not line.startswith("#"))]


def _concerns(line: str, labels: tuple[str, ...], sandbox: str, began: float) -> bool:
    kind, _, value = line.partition(" ")
    if kind == "label" and "=" in value:
        return value in labels
    if kind == "sandbox" and value:
        return value == sandbox
    if kind == "since":
        try:
            return began >= float(value)
        except ValueError:
            return True
    return True


def _owner(path: str) -> int | None:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None


def _version(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
