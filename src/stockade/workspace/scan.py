"""Search a folder of the host before a run, for hidden names and for the state that changes are compared with.

The search has the caller's own rights, and follows no link. The number of names is limited, and so is the time.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from stockade.core.errors import JobError
from stockade.core.frozen import FrozenDict
from stockade.linux import beneath
from stockade.workspace.project import Entry, Project, upwards

MOST_NAMES = 200_000
MOST_HIDDEN = 1000


def scan_project(
    path: str, access: str, hidden: Sequence[str], protected: Sequence[str], shown: Iterable[str] = ()
) -> Project:
    """Return the content of the folder ``path``.

    ``shown`` are paths of the host that the policy names explicitly, so they are not hidden. Raises ``JobError`` if the
    folder is too large to search.
    """
    compared = access in ("overlay", "copy")
    if not (hidden or compared):
        return Project(path, access, protected=tuple(protected), patterns=tuple(hidden))
    is_hidden = _matcher(hidden)
    named = {os.path.relpath(each, path) for each in shown if each.startswith(path + "/")}
    covered: dict[str, bool] = {}
    entries: dict[str, Entry] = {}
    root = _opened(path)
    try:
        for inner, entry in _walk(root, path, lambda inner: inner not in covered, across=not compared):
            if inner not in named and is_hidden(inner):
                _cover(covered, path, inner, entry)
            elif compared:
                with suppress(FileNotFoundError):  # removed since the listing
                    entries[inner] = _entry(entry.stat(follow_symlinks=False))
    finally:
        os.close(root)
    if len(covered) > MOST_HIDDEN:
        raise JobError(f"filesystem.hidden: more than {MOST_HIDDEN} names below {path} match; name fewer in 'hidden'")
    behind_links = {inner for inner in covered if not is_hidden(inner)}  # some may have been found before their link
    if behind_links:
        entries = {inner: entry for inner, entry in entries.items() if behind_links.isdisjoint(upwards(inner))}
    return Project(path, access, FrozenDict(covered), tuple(protected), tuple(hidden), FrozenDict(entries))


def _entry(status: os.stat_result) -> Entry:
    return Entry(status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _opened(path: str) -> int:
    try:
        return beneath.open_folder(path)
    except OSError as error:
        raise JobError(f"filesystem.workspace: {path} cannot be opened: {error.strerror}") from None


def _walk(
    root: int, top: str, enters: Callable[[str], bool], *, across: bool
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield everything below ``root``. A folder is entered after it was yielded, if ``enters`` allows it."""
    waiting, left = [""], MOST_NAMES
    while waiting:
        outer = waiting.pop()
        for entry in _entries(root, outer, across=across):
            left -= 1
            if left < 0:
                raise JobError(
                    f"filesystem.workspace: there are more than {MOST_NAMES} names below {top}, too many to search "
                    f"before each run; name a smaller folder, or bind it with access='read' and hidden=[]"
                )
            inner = f"{outer}/{entry.name}" if outer else entry.name
            yield inner, entry
            if entry.is_dir(follow_symlinks=False) and enters(inner):
                waiting.append(inner)


def _entries(root: int, path: str, *, across: bool) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of one folder. Examine each before you ask for the next."""
    try:
        folder = beneath.open_at(root, path or ".", os.O_RDONLY | os.O_DIRECTORY, across=across)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise JobError(f"filesystem.workspace: a path in it is too long: {path[:80]!r}...") from None
        return  # the caller, and so the guest, may not enter it; or it was removed
    try:
        with os.scandir(folder) as found:
            yield from found
    finally:
        os.close(folder)


def _matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    names = [fnmatch.translate(pattern) for pattern in patterns if "/" not in pattern]
    paths = [fnmatch.translate(pattern) for pattern in patterns if "/" in pattern]
    name = re.compile("|".join(names) or r"(?!)")
    path = re.compile("|".join(paths) or r"(?!)")
    return lambda inner: bool(name.match(inner.rpartition("/")[2]) or path.match(inner))


def _cover(covered: dict[str, bool], top: str, inner: str, entry: os.DirEntry[str]) -> None:
    """Record a path to hide. For a link, record its target instead, if that lies in the project."""
    if not entry.is_symlink():
        covered[inner] = entry.is_dir(follow_symlinks=False)
        return
    try:
        real = os.path.realpath(f"{top}/{inner}", strict=True)
        status = os.lstat(real)
    except OSError:
        return
    if real.startswith(top + "/"):
        covered[real[len(top) + 1 :]] = stat.S_ISDIR(status.st_mode)
