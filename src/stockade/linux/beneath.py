"""Open paths below a folder's descriptor; no symbolic link, mount or ``..`` can lead outside (openat2(2))."""

from __future__ import annotations

import ctypes
import os

from stockade.linux import libc

# include/uapi/linux/openat2.h
_NO_XDEV = 0x01
_NO_MAGICLINKS = 0x02
_NO_SYMLINKS = 0x04
_BENEATH = 0x08
_RESOLVE = _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_at(folder: int, path: str | bytes, flags: int, mode: int = 0, *, across: bool = False) -> int:
    """Open ``path`` below ``folder``. Raise ``OSError`` if a part of the path is a link or leads outside.

    With ``O_PATH | O_NOFOLLOW``, the last part may be anything, so that the caller can examine it. ``across`` lets the
    path cross mount points.
    """
    resolve = _RESOLVE & ~_NO_XDEV if across else _RESOLVE
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    try:
        return libc.syscall("openat2", folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), os.fsdecode(path)) from None


def open_folder(path: str) -> int:
    """Open the folder at the absolute ``path``, which must contain no symbolic link."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_at(top, path.lstrip("/") or ".", os.O_RDONLY | os.O_DIRECTORY, across=True)
    finally:
        os.close(top)


def look(folder: int, path: str | bytes, *, across: bool = False) -> int:
    """Return an O_PATH descriptor of whatever is at ``path``: enough to examine it, and for nothing else."""
    return open_at(folder, path, os.O_PATH | os.O_NOFOLLOW, across=across)


def reopen(found: int, flags: int) -> int:
    """Open the very file that ``look`` has found, even if its name leads elsewhere by now."""
    return os.open(f"/proc/self/fd/{found}", flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
