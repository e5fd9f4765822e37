"""Find the changes of a run in a project that it saw through an overlay or as a copy."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import field
from typing import Literal, Protocol

from stockade.core.dataclass import dataclass
from stockade.linux import beneath
from stockade.workspace.artifacts import Refused
from stockade.workspace.project import Entry, Project, upwards

_MOST_BEFORE = 16 << 20
_MOST_BEFORE_TOGETHER = 64 << 20

Kind = Literal["added", "changed", "deleted"]
Type = Literal["file", "folder", "link"]


@dataclass(frozen=True)
class Change:
    """A path whose state differs from the project's when the run began."""

    path: str
    """Relative to the workspace."""
    kind: Kind
    type: Type
    """The type now; for a deleted path, the type before."""
    mode: int | None = None
    """Permission bits now, without set-user-id and similar bits; ``None`` for a link and for a deleted path."""
    content: bytes | None = field(default=None, repr=False)
    """The content of a file now."""
    target: str | None = None
    """The target of a link."""
    before: bytes | None = field(default=None, repr=False)
    """The content of a file before; ``None`` if the file is new, or if it exceeded 16 MiB."""
    old_mode: int | None = None
    """File type and permission bits before, as in stat(2)."""

    @property
    def is_text(self) -> bool:
        """Return whether the content before and now is UTF-8 text without a NUL."""
        return all(_is_text(content) for content in (self.before, self.content) if content is not None)


class Found(Protocol):
    """Files collected from a workspace, such as ``client.collected_files.CollectedFiles``."""

    files: dict[str, tuple[int, bytes]]
    links: dict[str, str]
    folders: dict[str, int]
    fresh: set[str]
    deleted: set[str]
    refused: list[Refused]


def changes(project: Project, found: Found) -> tuple[Change, ...]:
    """Return the differences from the project's state when the run began, sorted by path."""
    root = beneath.open_folder(project.path)
    try:
        before = _Before(root)
        now = [*_files(project, found, before), *_links(project, found, before), *_folders(project, found, before)]
        gone = [_deleted(path, project.entries[path], before) for path in _gone(project, found)]
    finally:
        os.close(root)
    return tuple(sorted((*now, *gone), key=lambda change: change.path))


class _Before:
    """Reads the old content of files, up to a limit."""

    def __init__(self, root: int) -> None:
        self.root = root
        self._left = _MOST_BEFORE_TOGETHER

    def read(self, path: str, entry: Entry | None) -> bytes | None:
        if entry is None or not stat.S_ISREG(entry.mode) or entry.size > min(_MOST_BEFORE, self._left):
            return None
        try:
            content = _read(self.root, path, entry.size)
        except OSError:
            return None
        self._left -= len(content)
        return content


def _read(root: int, path: str, most: int) -> bytes:
    found = beneath.look(root, path)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            return b""
        fd = beneath.reopen(found, os.O_RDONLY)
    finally:
        os.close(found)
    with os.fdopen(fd, "rb") as file:
        return file.read(most)


def _files(project: Project, found: Found, before: _Before) -> Iterator[Change]:
    for path, (mode, content) in found.files.items():
        entry = project.entries.get(path)
        old = before.read(path, entry)
        if entry and stat.S_ISREG(entry.mode) and stat.S_IMODE(entry.mode) & 0o777 == mode and old == content:
            continue
        yield Change(path, _kind(entry), "file", mode, content, before=old, old_mode=entry and entry.mode)


def _links(project: Project, found: Found, before: _Before) -> Iterator[Change]:
    for path, target in found.links.items():
        entry = project.entries.get(path)
        if entry is None or not stat.S_ISLNK(entry.mode) or _target(before.root, path) != target:
            old = before.read(path, entry)
            yield Change(path, _kind(entry), "link", target=target, before=old, old_mode=entry and entry.mode)


def _target(root: int, path: str) -> str | None:
    try:
        fd = beneath.look(root, path)
    except OSError:
        return None
    try:
        return os.readlink("", dir_fd=fd)
    except OSError:
        return None
    finally:
        os.close(fd)


def _folders(project: Project, found: Found, before: _Before) -> Iterator[Change]:
    for path, mode in found.folders.items():
        entry = project.entries.get(path)
        mode_was = stat.S_IMODE(entry.mode) & 0o777 if entry and stat.S_ISDIR(entry.mode) else None
        if mode_was == mode or (mode_was is not None and _is_mount(before.root, path)):
            continue
        old = before.read(path, entry)
        yield Change(path, _kind(entry), "folder", mode, before=old, old_mode=entry and entry.mode)


def _is_mount(root: int, path: str) -> bool:
    """Return whether ``path`` is a mount point: the guest may have seen the folder below the mount instead."""
    try:
        os.close(beneath.look(root, path))
    except OSError as error:
        return error.errno == errno.EXDEV
    return False


def _gone(project: Project, found: Found) -> Iterator[str]:
    """Yield paths that are gone: deleted themselves, or with their folder, or replaced together with it."""
    there = {*found.files, *found.links, *found.folders}
    unknown = {item.path for item in found.refused}
    emptied = {*found.deleted, *found.fresh, *found.files, *found.links}
    for path in project.entries:
        if path in there or any(part in unknown for part in upwards(path)):
            continue
        if path in found.deleted or any(part in emptied for part in upwards(path)[1:]):
            yield path


def _deleted(path: str, entry: Entry, before: _Before) -> Change:
    return Change(path, "deleted", type_of(entry.mode), before=before.read(path, entry), old_mode=entry.mode)


def type_of(mode: int) -> Type:
    """Return the type that a mode of stat(2) describes."""
    return "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "file"


def _kind(entry: Entry | None) -> Kind:
    return "added" if entry is None else "changed"


def _is_text(content: bytes) -> bool:
    if b"\0" in content:
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
