"""The project: the host folder behind a workspace, in its state just before a run. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from typing import NamedTuple

from stockade.core.dataclass import dataclass


class Entry(NamedTuple):
    """The file behind one name. A process that changes it cannot restore all fields: the kernel sets ``ctime_ns``."""

    mode: int
    """File type and permissions, as in stat(2)."""
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True)
class Project:
    """The result of a search of the folder ``path``. All other paths are relative to it."""

    path: str
    access: str
    """The guest's access: ``read``, ``write``, ``overlay`` or ``copy``."""
    hidden: Mapping[str, bool] = field(default_factory=dict)
    """Paths that the guest must not see, each with whether it is a folder."""
    protected: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """The patterns that hide names."""
    entries: Mapping[str, Entry] = field(default_factory=dict)
    """All other paths; empty if no change will be compared with them."""

    def is_closed(self, path: str) -> bool:
        """Return whether ``path`` must never be written: it, or a folder on its way, is protected, hidden or of a
        hidden name.
        """
        if any(_lies_in(path, each) for each in (*self.hidden, *self.protected)):
            return True
        return any(map(self.is_hidden_name, upwards(path)))

    def is_hidden_name(self, path: str) -> bool:
        """Return whether a pattern hides the path, by its name or as a whole."""
        name = path.rpartition("/")[2]
        return any(fnmatchcase(path if "/" in pattern else name, pattern) for pattern in self.patterns)

    def hides(self, path: str) -> bool:
        """Return whether ``path`` is hidden, or lies in a hidden folder."""
        return any(_lies_in(path, each) for each in self.hidden)

    def holds_covered(self, path: str) -> bool:
        """Return whether ``path`` contains a hidden or protected path."""
        return any(_lies_in(each, path) for each in (*self.hidden, *self.protected))


def upwards(path: str) -> list[str]:
    """Return a relative path and its parent folders, innermost first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
