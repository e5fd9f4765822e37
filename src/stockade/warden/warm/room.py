"""The room of a slot: mounts and folders in which its guests are, one after another. It is used again only if the last
one has left no trace in it; else it is given up as a whole, and made anew.

To make one for each guest was a seventh of what a run costs: the kernel copies all mounts for it, and to take them down
it waits until no processor can be looking at them any more (``namespace_unlock`` in fs/namespace.c).
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

from stockade.linux import landlock, libc, mounts, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

_CLOSED = -1
_GETFLAGS = 0x80006601 | struct.calcsize("l") << 16
"""FS_IOC_GETFLAGS (ioctl_iflags(2)); where numbers of this kind are put together as on most architectures."""


class Room:
    """Made by the keeper for itself; its guests are born in it."""

    def __init__(self, steps: Iterable[Sequence[Any]], *, uid: int, proc: int) -> None:
        """``steps`` tell what is to be in it; ``uid`` is who may write there, 0 for who the keeper is. ``proc`` is a
        descriptor of /proc. The namespace of mounts that this is called in stays as it is."""
        self._steps = tuple(steps)
        self._uid = uid
        self._bare = os.open("self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
        self._before: object = None
        self._faces: list[int] = []
        self.scratch = self.job = self.ruleset = _CLOSED
        """Descriptors: of the space that guests may fill, of their job's folder, and of their Landlock ruleset."""
        self.usual, self.source = "", _CLOSED
        """The file in the job's folder that is there already for each guest's source, and a descriptor of it."""
        self._expected = ""
        self._inode = 0
        self._own: list[str] = []
        self._prepared: landlock.Prepared | None = None
        self._make()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What a launch needs of it."""
        open_here = (self.scratch, self.job, self.source)
        return open_here if self.source >= 0 else open_here[:-1]

    def expect(self, name: str) -> None:
        """Have the file ``name`` there for the source of each of the next guests, if it is in no folder of its own."""
        self._expected = "" if "/" in name else name

    def renew(self) -> None:
        """Make it anew if the last guest, or what it was given, has left a trace in it. There must be no guest."""
        if self.source >= 0:
            os.ftruncate(self.source, 0)
            os.lseek(self.source, 0, os.SEEK_SET)  # which keeper and guests share
        self._inode += 1
        if self._expected != self.usual or self._see() != self._before or self._next_inode() != self._inode:
            libc.setns(self._bare, processes.NEW_NS)
            self._make()

    def _see(self) -> object:
        """Return all that can be seen of the folders and could have been changed there, but for ``_next_inode``: if
        there is no more in the file systems than there was, there is nothing in the folders.

        Nothing is left to the clock: what is done in the moment in which the room is made changes no time.
        """
        spaces = [os.statvfs(fd) for fd in (self.scratch, self.job)]
        folders = [os.fstat(fd) for fd in (self.job, *self._faces)]
        return (
            [(space.f_bfree, space.f_ffree) for space in spaces],
            [(each.st_mode, each.st_uid, each.st_gid, each.st_nlink) for each in folders],
            [(each.st_atime_ns, each.st_mtime_ns, each.st_ctime_ns) for each in folders],
            [(os.listxattr(fd), _flags(fd)) for fd in self._faces],
        )

    def _next_inode(self) -> int:
        """Return the number that the next file gets which is made in the scratch space: they are given out in turn, and
        a file that was made and is gone again has had one. Where everything else is as it was, there is room for it."""
        probe = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, dir_fd=self.scratch)
        number = os.fstat(probe).st_ino
        os.close(probe)
        return number

    def _make(self) -> None:
        libc.unshare(processes.NEW_NS)
        for fd in self._faces:
            os.close(fd)
        self._faces, self._own = [], []
        for name, *arguments in self._steps:
            getattr(self, f"_do_{name}")(*arguments)
        self._lay_source()
        self._before, self._inode = self._see(), self._next_inode()

    def _lay_source(self) -> None:
        if self.source >= 0:
            os.close(self.source)
        self.usual, self.source = self._expected, _CLOSED
        if self.usual:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self.source = os.open(self.usual, flags, 0o644, dir_fd=self.job)
            os.fchmod(self.source, 0o644)
            if self._uid:
                os.fchown(self.source, self._uid, self._uid)

    def _do_scratch(self, size: int, inodes: int, faces: Sequence[tuple[str, int]]) -> None:
        base = faces[0][0]
        mounts.tmpfs(base, size, inodes, 0o755)
        self.scratch = _replaced(self.scratch, os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        for number, (target, mode) in reversed(list(enumerate(faces))):
            folder = f"{base}/{number}"
            os.mkdir(folder, 0o700)
            self._give(folder, mode)
            libc.mount(folder, target, None, mounts.MS_BIND)
            self._own.append(target)
            self._faces.append(os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def _do_job_room(self, path: str, size: int, inodes: int) -> None:
        mounts.tmpfs(path, size, inodes, 0o755)
        self._give(path, 0o755)
        self.job = _replaced(self.job, os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        libc.mount(path, path, None, mounts.MS_BIND)  # what is below it stays writable, for the sandbox alone
        restricted = mounts.MS_REMOUNT | mounts.MS_BIND | mounts.MS_RDONLY | mounts.MS_NOSUID | mounts.MS_NODEV
        libc.mount(None, path, None, restricted)
        self._own.append(path)

    def _do_chdir(self, path: str) -> None:
        os.chdir(path)

    def _do_landlock(self, ruleset: dict[str, Any]) -> None:
        if self._prepared is None:
            self._prepared = landlock.Prepared(landlock.Ruleset.from_json(ruleset), self._own)
        self.ruleset = _replaced(self.ruleset, self._prepared.build())

    def _give(self, path: str, mode: int) -> None:
        os.chmod(path, mode)
        if self._uid:
            os.chown(path, self._uid, self._uid)


def _flags(fd: int) -> bytes:
    """Return the flags of a file (chattr(1))."""
    try:
        return fcntl.ioctl(fd, _GETFLAGS, bytes(8))
    except OSError as error:
        if error.errno == errno.ENOTTY:  # a tmpfs before Linux 6.0 has none
            return b""
        raise


def _replaced(old: int, new: int) -> int:
    """Return ``new`` under the number of ``old``, which is closed."""
    if old < 0:
        return new
    os.dup2(new, old, inheritable=False)
    os.close(new)
    return old
