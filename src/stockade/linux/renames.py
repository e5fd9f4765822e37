"""Rename without replacing: move to a free name, or exchange two names at once (renameat2(2))."""

from __future__ import annotations

import errno
import os

from stockade.linux import libc

# include/uapi/linux/fs.h
_NOREPLACE = 1
_EXCHANGE = 2


def move(from_folder: int, old: str, to_folder: int, new: str) -> None:
    """Move a file to another name, which must be free."""
    try:
        _rename(from_folder, old, to_folder, new, _NOREPLACE)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
        if _is_there(new, to_folder):  # this file system cannot check and rename in one step
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), new) from None
        os.rename(old, new, src_dir_fd=from_folder, dst_dir_fd=to_folder)


def exchange(one_folder: int, one: str, other_folder: int, other: str) -> None:
    """Exchange two existing names."""
    try:
        _rename(one_folder, one, other_folder, other, _EXCHANGE)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
        aside = f"{one}.old"
        os.rename(other, aside, src_dir_fd=other_folder, dst_dir_fd=one_folder)
        os.rename(one, other, src_dir_fd=one_folder, dst_dir_fd=other_folder)
        os.rename(aside, one, src_dir_fd=one_folder, dst_dir_fd=one_folder)


def _rename(from_folder: int, old: str, to_folder: int, new: str, flags: int) -> None:
    try:
        libc.syscall("renameat2", from_folder, os.fsencode(old), to_folder, os.fsencode(new), flags)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), new) from None


def _is_there(name: str, folder: int) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
