"""A folder of the host behind a workspace, as it was just before a run: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple


class Entry(NamedTuple):
    """What one name stood for. Whoever changes a file cannot keep all of this: ``ctime_ns`` is the kernel's to set."""

    mode: int
    """Kind and permissions, as stat(2) has them."""
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True)
class Project:
    """What a search of the folder ``path`` has found. All other paths are relative to it."""

    path: str
    access: str
    """What the guest may do in it: ``read``, ``write``, ``overlay`` or ``copy``."""
    hidden: Mapping[str, bool] = field(default_factory=dict)
    """What the guest must not see, and whether it is a folder."""
    protected: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """By which names are hidden."""
    entries: Mapping[str, Entry] = field(default_factory=dict)
    """Everything else; empty where nothing will be compared with it."""

    def is_closed(self, path: str) -> bool:
        """Return whether ``path`` is protected, hidden, or would be, or lies in what is: it is never written."""
        if any(_lies_in(path, each) for each in (*self.hidden, *self.protected)):
            return True
        return any(map(self.is_hidden_name, upwards(path)))

    def is_hidden_name(self, path: str) -> bool:
        """Return whether a path is hidden by its name or as a whole."""
        name = path.rpartition("/")[2]
        return any(fnmatchcase(path if "/" in pattern else name, pattern) for pattern in self.patterns)

    def hides(self, path: str) -> bool:
        """Return whether ``path`` is hidden, or lies in what is."""
        return any(_lies_in(path, each) for each in self.hidden)

    def holds_covered(self, path: str) -> bool:
        """Return whether something hidden or protected lies in ``path``."""
        return any(_lies_in(each, path) for each in (*self.hidden, *self.protected))


def upwards(path: str) -> list[str]:
    """Return a relative path and the folders that it lies in, inner ones first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
