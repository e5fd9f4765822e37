"""Mount by descriptor, so that no call follows a path that a guest could have prepared.

openat2(2) resolves sources inside the old root and targets inside the new one. open_tree(2) and move_mount(2) clone and
attach mounts (Linux 5.2). mount_setattr(2) restricts them (Linux 5.12). Before 5.12, a remount restricts one mount at a
time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat

from stockade.linux import libc

# include/uapi/linux/mount.h
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_RDONLY = 0x1
MS_REMOUNT = 0x20
MS_BIND = 0x1000
_MS_NOATIME = 0x400
_MS_NODIRATIME = 0x800
_MS_RELATIME = 0x200000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000
_MNT_DETACH = 2
OPEN_TREE_CLONE = 1
_OPEN_TREE_CLOEXEC = os.O_CLOEXEC
_AT_RECURSIVE = 0x8000
_AT_EMPTY_PATH = 0x1000
_MOVE_MOUNT_F_EMPTY_PATH = 0x04
_MOVE_MOUNT_T_EMPTY_PATH = 0x40
ATTR_RDONLY = 0x1
ATTR_NOSUID = 0x2
ATTR_NODEV = 0x4
_ATTR_IDMAP = 0x100000

# include/uapi/linux/openat2.h
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_IN_ROOT = 0x10

_O_PATH = os.O_PATH | os.O_CLOEXEC


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def make_private() -> None:
    """Stop mount events from passing between this mount namespace and any other."""
    libc.mount(None, "/", None, _MS_REC | _MS_PRIVATE)


def tmpfs(target: str, size: int, inodes: int, mode: int) -> None:
    """Mount a tmpfs of at most ``size`` bytes. Size 0 is an error, because the kernel reads it as "no limit"."""
    if size <= 0 or inodes <= 0:
        raise OSError(errno.EINVAL, f"tmpfs on {target}: size and inodes must be positive")
    options = f"size={size},nr_inodes={inodes},mode={mode:o}"
    libc.mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, options)


def proc(target: str) -> None:
    """Mount a fresh procfs of the caller's PID namespace."""
    libc.mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def pts(target: str, most: int) -> None:
    """Mount a fresh devpts of at most ``most`` pseudo-terminals. It holds none of the host's.

    A kernel without pseudo-terminals (CONFIG_UNIX98_PTYS) gives the guest none. Any other failure is an error.
    """
    options = f"newinstance,ptmxmode=0666,mode=620,max={most}"
    try:
        libc.mount("devpts", target, "devpts", MS_NOSUID | MS_NOEXEC, options)
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise


def open_beneath(root: int, path: str, *, follow: bool) -> int:
    """Open ``path`` as O_PATH inside the directory ``root``. Absolute symbolic links cannot leave ``root`` either."""
    resolve = _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS | (0 if follow else _RESOLVE_NO_SYMLINKS)
    how = _OpenHow(_O_PATH, 0, resolve)
    try:
        return libc.syscall("openat2", root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    except OSError as error:
        raise OSError(error.errno, f"openat2 {path}: {os.strerror(error.errno or 0)}") from None


def copy(source: int, *, recursive: bool = True) -> int:
    """Return the descriptor of a detached copy of the mounts at ``source`` (open_tree(2))."""
    flags = OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    return libc.syscall("open_tree", source, b"", flags)


def bind(source: int, target: int, path: str, attributes: int) -> None:
    """Attach a copy of the mounts at ``source`` onto ``target``, and add ``attributes`` to all of them.

    ``path`` leads to ``target`` from the current root. Before Linux 5.12, the copy leaves out mounts further down: they
    could not be restricted before the guest sees them.
    """
    tree = copy(source)
    try:
        old = bool(attributes) and not _set_attributes(tree, attributes, recursive=True)
        if old:
            os.close(tree)
            tree = copy(source, recursive=False)
        attach = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
        libc.syscall("move_mount", tree, b"", target, b"", attach)
        if old:
            _remount(path, attributes)
    finally:
        os.close(tree)


def attach_for(source: int, target: int, attributes: int, user_namespace: int) -> None:
    """Attach a copy of the single mount at ``source`` onto ``target``. ``user_namespace`` maps the owners of its files.

    The attribute is MOUNT_ATTR_IDMAP of mount_setattr(2) (Linux 5.12). A file system that lacks it answers EINVAL.
    """
    tree = copy(source, recursive=False)
    try:
        attr = _MountAttr(attributes | _ATTR_IDMAP, 0, 0, user_namespace)
        libc.syscall("mount_setattr", tree, b"", _AT_EMPTY_PATH, ctypes.byref(attr), ctypes.sizeof(attr))
        attach = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
        libc.syscall("move_mount", tree, b"", target, b"", attach)
    finally:
        os.close(tree)


def restrict(mount: int, path: str, attributes: int) -> None:
    """Add ``attributes`` (``ATTR_*``) to one mount. ``mount`` is a descriptor on it, and ``path`` leads to it."""
    if not _set_attributes(mount, attributes, recursive=False):
        _remount(path, attributes)


def _set_attributes(mount: int, attributes: int, *, recursive: bool) -> bool:
    """Return whether this kernel has mount_setattr(2)."""
    attr = _MountAttr(attributes, 0, 0, 0)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    try:
        libc.syscall("mount_setattr", mount, b"", flags, ctypes.byref(attr), ctypes.sizeof(attr))
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        return False
    return True


def _remount(path: str, attributes: int) -> None:
    """Add ``attributes`` to the mount at ``path``.

    A remount names the present flags again, because the kernel refuses to drop some of them.
    """
    has = os.statvfs(path).f_flag
    kept = ((os.ST_RDONLY, MS_RDONLY), (os.ST_NOSUID, MS_NOSUID), (os.ST_NODEV, MS_NODEV), (os.ST_NOEXEC, MS_NOEXEC))
    times = ((os.ST_NOATIME, _MS_NOATIME), (os.ST_NODIRATIME, _MS_NODIRATIME), (os.ST_RELATIME, _MS_RELATIME))
    flags = sum(mount for status, mount in (*kept, *times) if has & status)
    # ATTR_RDONLY, ATTR_NOSUID and ATTR_NODEV have the values of their MS_ namesakes.
    libc.mount(None, path, None, MS_REMOUNT | MS_BIND | flags | attributes)


def pivot(old: str) -> None:
    """Make the current directory, a mount, the root. The old root moves to its folder ``old``."""
    libc.syscall("pivot_root", b".", old.encode())


def detach(target: str) -> None:
    """Detach the mount at ``target`` from the tree, with all mounts below it."""
    libc.umount(target, _MNT_DETACH)


def is_directory(fd: int) -> bool:
    """Return whether the descriptor refers to a directory."""
    return stat.S_ISDIR(os.fstat(fd).st_mode)
