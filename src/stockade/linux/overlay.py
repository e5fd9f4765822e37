"""Show a project of the host, while writes go to a folder of the run (the kernel's filesystems/overlayfs.rst).

The lower folder is the project, read-only. The upper folder lies on the run's own bounded tmpfs, and is collected after
the run. Overlayfs features that redirect, index or copy parts of files are off. So each name in the upper folder stands
for itself: a file or folder in its present state, or a device 0/0 for a deleted name.
"""

from __future__ import annotations

import errno
import os

from stockade.linux import libc, mounts, users

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

INODES = 8
"""Inodes of the upper folder's file system that an overlay uses before anything is written."""
_OPTIONS = "userxattr,index=off,xino=off"  # userxattr also switches off redirections and partial copies
_FLAGS = mounts.MS_NOSUID | mounts.MS_NODEV
_EVERYBODY_WRITES = 0o002


class OwnerError(OSError):
    """The file system of a project cannot show its files with another owner."""


class Guest:
    """The guest's uid and gid on the host. Root must map the project's owner to them.

    ``proc`` is the descriptor of a writable proc mount.
    """

    def __init__(self, uid: int, gid: int, proc: int) -> None:
        self.uid, self.gid = uid, gid
        self.proc = proc


def mount(source: int, scratch: int, target: int, guest: Guest | None) -> int:
    """Mount the project ``source`` onto ``target``, with a fresh upper folder in ``scratch``; return that folder.

    All are descriptors. ``guest`` is ``None`` if the guest keeps the caller's uid. Raises ``OwnerError``.
    """
    for name in ("lower", "upper", "work"):
        os.mkdir(name, 0o700, dir_fd=scratch)
    lower = os.open("lower", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=scratch)
    upper = os.open("upper", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=scratch)
    status = os.fstat(source)
    _show(source, lower, f"/proc/self/fd/{scratch}/lower", status, guest)
    if guest is not None:
        os.chown(f"/proc/self/fd/{upper}", guest.uid, guest.gid)
    os.chmod(f"/proc/self/fd/{upper}", status.st_mode & 0o777)
    here = f"/proc/self/fd/{scratch}"
    attach(f"{here}/lower", f"{here}/upper", f"{here}/work", f"/proc/self/fd/{target}")
    os.close(lower)
    return upper


def attach(lower: str, upper: str, work: str, target: str) -> None:
    """Mount an overlay. The paths must hold neither a colon nor a comma."""
    libc.mount("overlay", target, "overlay", _FLAGS, f"lowerdir={lower},upperdir={upper},workdir={work},{_OPTIONS}")


def attach_read_only(source: int, scratch: int, target: int) -> None:
    """Mount a read-only overlay over the folder ``source`` alone onto ``target``. All are descriptors.

    Sockets and named pipes in an overlay are separate from those in the folder below. No process listens at such a
    socket or reads from such a pipe, whenever it was made in the folder below.
    """
    os.mkdir("none", 0o700, dir_fd=scratch)  # an overlay needs at least two folders
    lower = f"/proc/self/fd/{source}:/proc/self/fd/{scratch}/none"
    flags = _FLAGS | mounts.MS_RDONLY
    libc.mount("overlay", f"/proc/self/fd/{target}", "overlay", flags, f"lowerdir={lower},{_OPTIONS}")


def why_no_overlay(folder: str) -> str:
    """Return why an overlay fails in ``folder``, a fresh tmpfs; an empty text means that it works."""
    names: Sequence[str] = [f"{folder}/.{name}" for name in ("lower", "upper", "work", "target")]
    try:
        for name in names:
            os.mkdir(name)
        attach(*names)
        os.mkdir(f"{names[3]}/try")
    except OSError as error:
        return os.strerror(error.errno or errno.EIO)
    return ""


def _show(source: int, lower: int, path: str, status: os.stat_result, guest: Guest | None) -> None:
    """Attach the project. If the guest's uid differs from the owner's, map the owner to the guest."""
    attributes = mounts.ATTR_RDONLY | mounts.ATTR_NOSUID | mounts.ATTR_NODEV
    if guest is None or status.st_uid == guest.uid:
        mounts.bind(source, lower, path, attributes)
        return
    try:
        owners = [(status.st_uid, guest.uid)], [(status.st_gid, guest.gid)]
        namespace = users.user_namespace(guest.proc, *owners)
        try:
            mounts.attach_for(source, lower, attributes, namespace)
        finally:
            os.close(namespace)
    except OSError as error:
        if not status.st_mode & _EVERYBODY_WRITES:
            raise OwnerError(error.errno, os.strerror(error.errno or errno.EIO)) from None
        mounts.bind(source, lower, path, attributes)
