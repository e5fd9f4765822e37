"""Copy a project into the folder of a guest, and record the state of every file at the beginning.

The copier works by descriptors, with the rights of its caller. Links stay links. Sockets, pipes and devices are left
out, and so is whatever is mounted inside the project.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from stockade.linux import beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 1 << 20
_DEEPEST = 64
_TICK_SECONDS = 0.0005


class Copier:
    """The copy of one project into one folder."""

    def __init__(
        self,
        hidden: frozenset[str],
        most_bytes: int | None,
        own: Callable[[int, os.stat_result], None] = lambda _fd, _status: None,
    ) -> None:
        """``hidden`` paths are left out.

        ``own`` sets the owner of a copied file or folder, a descriptor, by the status of the original.
        """
        self._hidden = hidden
        self._most = most_bytes
        self._copied = 0
        self._own = own
        self._latest = 0
        self._manifest: list[tuple[str, bytes]] = []

    def copy(self, source: int, target: int) -> bytes:
        """Copy the content of ``source`` into ``target``, which is empty; return the manifest.

        The manifest has each path and the ``identity`` of its copy, separated by NULs. This function returns after the
        next tick of the clock, so any later change of a copy has a later date.
        """
        self._folder(source, target, "", 0)
        self._wait_for_next_tick(target)
        return b"".join(os.fsencode(path) + b"\0" + what + b"\0" for path, what in self._manifest)

    def _folder(self, source: int, target: int, path: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise OSError(errno.ENAMETOOLONG, f"{path[:80]}...: more than {_DEEPEST} folders deep")
        for name in os.listdir(source):
            inner = f"{path}/{name}" if path else name
            if inner in self._hidden:
                continue
            try:
                found = beneath.look(source, name)
            except OSError as error:
                if error.errno in (errno.EXDEV, errno.ENOENT):
                    continue  # a mount, not searched for names to hide; or removed since the listing
                raise
            try:
                self._one(found, target, name, inner, depth)
            except OSError as error:
                if str(error.strerror).startswith(("the project", f"{path}/")):
                    raise
                raise OSError(error.errno, f"{inner}: {error.strerror}") from None
            finally:
                os.close(found)

    def _one(self, found: int, target: int, name: str, path: str, depth: int) -> None:
        status = os.fstat(found)
        if stat.S_ISDIR(status.st_mode):
            self._inner_folder(found, target, path, depth, status)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink("", dir_fd=found), name, dir_fd=target)
            self._note(target, name, path)
        elif stat.S_ISREG(status.st_mode):
            self._file(found, target, name, status)
            self._note(target, name, path)

    def _inner_folder(self, found: int, target: int, path: str, depth: int, status: os.stat_result) -> None:
        name = path.rpartition("/")[2]
        source = beneath.reopen(found, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.mkdir(name, 0o700, dir_fd=target)
            made = beneath.open_at(target, name, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self._manifest.append((path, b"folder"))
                self._folder(source, made, path, depth + 1)
                os.fchmod(made, status.st_mode & 0o777)
                self._own(made, status)
            finally:
                os.close(made)
        finally:
            os.close(source)

    def _file(self, found: int, target: int, name: str, status: os.stat_result) -> None:
        source = beneath.reopen(found, os.O_RDONLY)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            made = os.open(name, flags, 0o600, dir_fd=target)
            try:
                self._content(source, made)
                os.fchmod(made, status.st_mode & 0o777)
                os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
                self._own(made, status)
            finally:
                os.close(made)
        finally:
            os.close(source)

    def _content(self, source: int, made: int) -> None:
        while piece := os.read(source, _CHUNK):
            self._copied += len(piece)
            if self._most is not None and self._copied > self._most:
                raise OSError(errno.EFBIG, "the project is larger than limits.disk, but its copy must fit in")
            view = memoryview(piece)
            while view:
                view = view[os.write(made, view) :]

    def _note(self, folder: int, name: str, path: str) -> None:
        status = os.lstat(name, dir_fd=folder)
        self._latest = max(self._latest, status.st_ctime_ns)
        self._manifest.append((path, identity(status)))

    def _wait_for_next_tick(self, folder: int) -> None:
        """Wait for the kernel's next tick: file systems store times no finer than that (time(7))."""
        name = ".stockade-tick"
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            os.unlink(name, dir_fd=folder)
            while os.fstat(fd).st_ctime_ns <= self._latest:
                time.sleep(_TICK_SECONDS)
                os.utime(fd)
        finally:
            os.close(fd)


def identity(status: os.stat_result) -> bytes:
    """Return inode number and change time: a guest that changes a file cannot keep both."""
    return b"%d %d" % (status.st_ino, status.st_ctime_ns)
