"""Mounts by descriptor: nothing here follows a path that a guest could have prepared.

Sources are resolved inside the old root and targets inside the new one with openat2(2); mounts are cloned and
attached with open_tree(2) and move_mount(2) (Linux 5.2), and restricted with mount_setattr(2) (Linux 5.12), or
before that by remounting, one mount at a time.
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
    """Mount a tmpfs of at most ``size`` bytes. Size 0 is refused: the kernel reads it as "no limit"."""
    if size <= 0 or inodes <= 0:
        raise OSError(errno.EINVAL, f"tmpfs on {target}: size and inodes must be positive")
    options = f"size={size},nr_inodes={inodes},mode={mode:o}"
    libc.mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, options)


def proc(target: str) -> None:
    """Mount a fresh procfs of the caller's PID namespace."""
    libc.mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def open_beneath(root: int, path: str, *, follow: bool) -> int:
    """Open ``path`` as O_PATH inside the directory ``root``, which also bounds absolute symbolic links."""
    resolve = _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS | (0 if follow else _RESOLVE_NO_SYMLINKS)
    how = _OpenHow(_O_PATH, 0, resolve)
    try:
        return libc.syscall("openat2", root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    except OSError as error:
        raise OSError(error.errno, f"openat2 {path}: {os.strerror(error.errno or 0)}") from None


def copy(source: int, *, recursive: bool = True) -> int:
    """Return a descriptor of a copy of the mounts at ``source`` that is attached nowhere (open_tree(2))."""
    flags = OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    return libc.syscall("open_tree", source, b"", flags)


def bind(source: int, target: int, path: str, attributes: int) -> None:
    """Attach a copy of the mounts at ``source`` onto ``target``, with ``attributes`` added to all of them.

    ``path`` leads to ``target`` from the current root. Before Linux 5.12 the copy is of one mount only: what is
    mounted further down stays out of sight, since it could not be restricted before it is seen.
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
    """Attach a copy of the one mount at ``source`` onto ``target``, with its owners as ``user_namespace`` maps them.

    mount_setattr(2), MOUNT_ATTR_IDMAP: Linux 5.12; not every file system can do it (EINVAL).
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
    """Add ``attributes`` (``ATTR_*``) to the one mount that ``mount`` stands on and ``path`` leads to."""
    if not _set_attributes(mount, attributes, recursive=False):
        _remount(path, attributes)


def _set_attributes(mount: int, attributes: int, *, recursive: bool) -> bool:
    """Return whether the kernel knows the call."""
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
    """Add ``attributes`` to the mount at ``path``. Flags that it has are named again: some may not be dropped."""
    has = os.statvfs(path).f_flag
    kept = ((os.ST_RDONLY, MS_RDONLY), (os.ST_NOSUID, MS_NOSUID), (os.ST_NODEV, MS_NODEV), (os.ST_NOEXEC, MS_NOEXEC))
    times = ((os.ST_NOATIME, _MS_NOATIME), (os.ST_NODIRATIME, _MS_NODIRATIME), (os.ST_RELATIME, _MS_RELATIME))
    flags = sum(mount for status, mount in (*kept, *times) if has & status)
    # ATTR_RDONLY, ATTR_NOSUID and ATTR_NODEV have the values of their MS_ namesakes.
    libc.mount(None, path, None, MS_REMOUNT | MS_BIND | flags | attributes)


def pivot(old: str) -> None:
    """Make the current directory, a mount, the root; the old root comes to lie on its folder ``old``."""
    libc.syscall("pivot_root", b".", old.encode())


def detach(target: str) -> None:
    """Take the mount at ``target`` out of the tree, with all below it."""
    libc.umount(target, _MNT_DETACH)


def is_directory(fd: int) -> bool:
    """Return whether the descriptor stands on a directory."""
    return stat.S_ISDIR(os.fstat(fd).st_mode)
