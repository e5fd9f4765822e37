"""Commit changes to a project of the host, with the caller's rights.

Everything is checked first, and if a step fails, all earlier ones are undone. New content is first written into a
separate folder, so that a full disk changes nothing. Then names are exchanged. No path is followed through a link,
whoever created it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stockade.core.errors import CommitError
from stockade.linux import beneath, places, renames
from stockade.workspace.artifacts import Refused
from stockade.workspace.changes import Change
from stockade.workspace.project import Entry, Project, upwards

_STAGING = ".stockade-commit-"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Committed:
    """The result of a commit."""

    applied: tuple[Change, ...]
    left_out: tuple[Refused, ...] = ()
    """Changes of hidden or protected paths, which are never written."""


def commit(project: Project, changes: Sequence[Change], refused: Sequence[Refused], error: str | None) -> Committed:
    """Apply ``changes`` to the project: all or nothing, as far as the file system allows.

    Raises ``CommitError`` with every conflict before anything changes.
    """
    if error:
        raise CommitError([Refused("", f"the changes of the run are unknown: {error}")])
    if refused:
        raise CommitError(refused)
    left_out = [
        Refused(each.path, "is hidden or protected, or contains such a path")
        for each in changes
        if _stays(project, each)
    ]
    wanted = [each for each in changes if not _stays(project, each)]
    root = beneath.open_folder(project.path)
    try:
        conflicts = [*_conflicts(root, project, wanted)]
        if conflicts:
            raise CommitError(conflicts)
        if wanted:
            _apply(root, project, wanted)
    finally:
        os.close(root)
    return Committed(tuple(wanted), tuple(left_out))


def _stays(project: Project, change: Change) -> bool:
    return project.is_closed(change.path) or (change.kind == "deleted" and project.holds_covered(change.path))


def _conflicts(root: int, project: Project, changes: Sequence[Change]) -> Iterator[Refused]:
    made = {each.path for each in changes if each.type == "folder" and each.kind != "deleted"}
    replaced = {path for path in made if path in project.entries and not stat.S_ISDIR(project.entries[path].mode)}
    for change in changes:
        if change.type == "link" and change.kind != "deleted" and not _stays_inside(change):
            yield Refused(change.path, f"is a link that leads out of the project, to {change.target!r}")
        if not replaced.isdisjoint(upwards(change.path)[1:]):
            continue  # a new folder replaces a file or link first, and the check of that one is enough
        parent = change.path.rpartition("/")[0]
        why = _differs(root, change, project.entries.get(change.path), new_parent=parent in made)
        if why:
            yield Refused(change.path, why)


def _differs(root: int, change: Change, was: Entry | None, *, new_parent: bool) -> str:
    """Return how the host's file differs from its state when the run began; an empty text if it does not."""
    try:
        now = _now(root, change.path)
    except OSError as error:
        far = error.errno in (errno.ELOOP, errno.EXDEV)
        return (
            "is reached through a link or lies on another file system" if far else f"cannot be seen: {error.strerror}"
        )
    if now is None and was is None and not new_parent and not _has_parent(root, change.path):
        return "lies in a folder that no longer exists"
    if (now is None) != (was is None):
        return "was made on the host since the run began" if was is None else "was deleted on the host meanwhile"
    if now is None or was is None or now == was or (stat.S_ISDIR(now.mode) and stat.S_ISDIR(was.mode)):
        return ""
    return "was changed on the host since the run began"


def _now(root: int, path: str) -> Entry | None:
    try:
        found = beneath.look(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        status = os.fstat(found)
    finally:
        os.close(found)
    return Entry(status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _has_parent(root: int, path: str) -> bool:
    try:
        os.close(_parent(root, path))
    except OSError:
        return False
    return True


def _parent(root: int, path: str) -> int:
    return beneath.open_at(root, path.rpartition("/")[0] or ".", os.O_RDONLY | os.O_DIRECTORY)


def _stays_inside(change: Change) -> bool:
    """Return whether a link's target lies below the project, whatever other links are on the way.

    ``..`` may only stand at the front, where each step leaves a real folder.
    """
    parts = (change.target or "/").split("/")
    ups = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    return parts[0] != "" and ".." not in parts[ups:] and ups <= change.path.count("/")


def _apply(root: int, project: Project, changes: Sequence[Change]) -> None:
    with _staging(root) as staging, _undoing() as undo:
        step = _Steps(root, staging, project, undo)
        step.write_new(changes)
        gone = [each for each in changes if each.kind == "deleted"]
        replaced = [each for each in changes if each.kind == "changed" and step.changes_type(each)]
        for change in sorted((*gone, *replaced), key=lambda each: each.path.count("/"), reverse=True):
            step.take_away(change)
        for change in sorted(changes, key=lambda each: (each.path.count("/"), each.path)):
            if change.kind != "deleted" and change.type == "folder":
                step.make_folder(change)
        for change in changes:
            if change.kind != "deleted" and change.type != "folder":
                step.put(change)


@contextmanager
def _staging(root: int) -> Iterator[int]:
    name = f"{_STAGING}{secrets.token_hex(8)}"
    os.mkdir(name, 0o700, dir_fd=root)
    try:
        staging = beneath.open_at(root, name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield staging
        finally:
            os.close(staging)
    finally:
        places.remove(f"/proc/self/fd/{root}/{name}")


@contextmanager
def _undoing() -> Iterator[list[Callable[[], object]]]:
    undo: list[Callable[[], object]] = []
    try:
        yield undo
    except BaseException as error:
        for action in reversed(undo):
            with suppress(OSError):
                action()
        if isinstance(error, OSError):
            path = os.fsdecode(error.filename or "")
            raise CommitError(
                [Refused(path, f"could not be written, so nothing was changed: {error.strerror}")]
            ) from error
        raise


class _Steps:
    """The steps of one commit; each appends its reverse action to ``undo``."""

    def __init__(self, root: int, staging: int, project: Project, undo: list[Callable[[], object]]) -> None:
        self._root = root
        self._staging = staging
        self._project = project
        self._undo = undo
        self._new: dict[str, str] = {}

    def changes_type(self, change: Change) -> bool:
        """Return whether a folder replaces something else, or the reverse."""
        was = stat.S_ISDIR(self._project.entries[change.path].mode)
        return was != (change.type == "folder")

    def write_new(self, changes: Sequence[Change]) -> None:
        """Write all new content into the staging folder."""
        for number, change in enumerate(changes):
            name = f"new{number}"
            if change.kind == "deleted" or change.type == "folder":
                continue
            if change.type == "link":
                os.symlink(change.target or "", name, dir_fd=self._staging)
            else:
                fd = os.open(name, _NEW, 0o600, dir_fd=self._staging)
                with os.fdopen(fd, "wb") as file:
                    file.write(change.content or b"")
                    file.flush()
                    os.fchmod(fd, (change.mode or 0) & 0o777)
            self._new[change.path] = name

    def take_away(self, change: Change) -> None:
        """Move a file or link to the staging folder; remove a folder unless it still contains something hidden."""
        with self._in_parent(change) as (parent, name):
            if stat.S_ISDIR(self._project.entries[change.path].mode):
                self._remove_folder(parent, name, change)
                return
            away = f"old{len(self._undo)}"
            renames.move(parent, name, self._staging, away)
            self._undo.append(lambda: self._move_back(change.path, away))
            self._expect_as_before(away, change)

    def make_folder(self, change: Change) -> None:
        """Create a folder, or change its mode."""
        mode = (change.mode or 0) & 0o777
        with self._in_parent(change) as (parent, name):
            if change.kind == "changed" and not self.changes_type(change):
                before = stat.S_IMODE(self._project.entries[change.path].mode)
                self._set_mode(change.path, mode)
                self._undo.append(lambda: self._set_mode(change.path, before))
                return
            os.mkdir(name, 0o700, dir_fd=parent)
            self._undo.append(lambda: self._with_parent(change.path, os.rmdir))
            self._give_to_owner(name, parent, change)
            self._set_mode(change.path, mode | 0o300)  # its content is written later

    def put(self, change: Change) -> None:
        """Move new content to its path: exchange it with the old content, or use the free name."""
        new = self._new[change.path]
        with self._in_parent(change) as (parent, name):
            self._give_to_owner(new, self._staging, change, like=parent)
            if change.kind == "changed" and not self.changes_type(change):
                renames.exchange(self._staging, new, parent, name)
                self._undo.append(lambda: self._exchange_back(change.path, new))
                self._expect_as_before(new, change)
            else:
                renames.move(self._staging, new, parent, name)
                self._undo.append(lambda: self._with_parent(change.path, os.unlink))

    def _remove_folder(self, parent: int, name: str, change: Change) -> None:
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError as error:
            raise OSError(error.errno, error.strerror, change.path) from None
        mode = stat.S_IMODE(self._project.entries[change.path].mode)
        self._undo.append(
            lambda: self._with_parent(change.path, lambda name, dir_fd: os.mkdir(name, mode, dir_fd=dir_fd))
        )

    def _expect_as_before(self, moved: str, change: Change) -> None:
        """Raise ``OSError`` if the file has changed since the check. The change time is ignored, because the move sets
        it.
        """
        was, status = self._project.entries[change.path], os.lstat(moved, dir_fd=self._staging)
        now = Entry(status.st_mode, status.st_size, status.st_mtime_ns, was.ctime_ns, status.st_ino)
        if now != was:
            raise OSError(errno.EBUSY, "it was changed on the host meanwhile", change.path)

    def _give_to_owner(self, name: str, folder: int, change: Change, *, like: int | None = None) -> None:
        """Give a file that root commits to the owner of the old file, or of the folder."""
        if os.geteuid() != 0:
            return
        owner = os.fstat(folder if like is None else like)
        if change.kind == "changed":
            with suppress(OSError):
                found = beneath.look(self._root, change.path)
                owner = os.fstat(found)
                os.close(found)
        os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)
        if change.type == "file":
            os.chmod(name, (change.mode or 0) & 0o777, dir_fd=folder)  # chown(2) may have cleared bits

    def _set_mode(self, path: str, mode: int) -> None:
        found = beneath.open_at(self._root, path, os.O_PATH | os.O_DIRECTORY)
        try:
            Path(f"/proc/self/fd/{found}").chmod(mode)
        finally:
            os.close(found)

    def _move_back(self, path: str, away: str) -> None:
        self._with_parent(path, lambda name, dir_fd: renames.move(self._staging, away, dir_fd, name))

    def _exchange_back(self, path: str, new: str) -> None:
        self._with_parent(path, lambda name, dir_fd: renames.exchange(self._staging, new, dir_fd, name))

    def _with_parent(self, path: str, action: Callable[..., object]) -> None:
        parent = _parent(self._root, path)
        try:
            action(path.rpartition("/")[2], dir_fd=parent)
        finally:
            os.close(parent)

    @contextmanager
    def _in_parent(self, change: Change) -> Iterator[tuple[int, str]]:
        parent = _parent(self._root, change.path)
        try:
            yield parent, change.path.rpartition("/")[2]
        finally:
            os.close(parent)
