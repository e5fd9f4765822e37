"""Call the C library and raw system calls through ctypes. Errors are ``OSError``."""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)

# Numbers up to 423 differ between architectures (arch/*/include/asm/unistd.h); newer ones are the same on all.
_ARCH_NUMBERS = {
    "x86_64": {"clone": 56, "capset": 126, "pivot_root": 155, "keyctl": 250, "seccomp": 317, "renameat2": 316},
    "aarch64": {"clone": 220, "capset": 91, "pivot_root": 41, "keyctl": 219, "seccomp": 277, "renameat2": 276},
}
NUMBERS = {
    "io_uring_setup": 425,
    "io_uring_register": 427,
    "landlock_create_ruleset": 444,
    "open_tree": 428,
    "move_mount": 429,
    "close_range": 436,
    "openat2": 437,
    "mount_setattr": 442,
} | _ARCH_NUMBERS.get(os.uname().machine, {})

_ZEROS = (0, 0, 0, 0)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
plain = _libc["syscall"]
"""syscall(2) without argument types, which halves its cost.

Arguments are integers below 2**31, bytes or None; the result is an int. The caller checks for errors (``check``).
"""
_mount = _libc.mount
_mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_umount2 = _libc.umount2
_umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_unshare = _libc.unshare
_unshare.argtypes = (ctypes.c_int,)
_fflush = _libc.fflush
_fflush.argtypes = (ctypes.c_void_p,)
_setns = _libc.setns
_setns.argtypes = (ctypes.c_int, ctypes.c_int)


def check(result: int, what: str) -> int:
    """Return ``result``, or raise the ``OSError`` of the current errno, with ``what`` in its text."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def syscall(name: str, *args: Any) -> int:
    """Make the system call ``name``. Pointers are bytes or ctypes objects; numbers become longs."""
    number = NUMBERS.get(name)
    if number is None:
        raise OSError(errno.ENOSYS, f"{name}: stockade has no number for this system call on {os.uname().machine}")
    native = (ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args)
    return check(_syscall(ctypes.c_long(number), *native), name)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    encoded = (None if part is None else os.fsencode(part) for part in (source, target, kind))
    first, second, third = encoded
    options = None if data is None else data.encode()
    check(_mount(first, second, third, flags, options), f"mount {kind or 'flags'} on {target}")


def umount(target: str, flags: int) -> None:
    """umount2(2)."""
    check(_umount2(os.fsencode(target), flags), f"unmount {target}")


def prctl(option: int, *args: int) -> int:
    """prctl(2)."""
    result = _prctl(option, *args, *_ZEROS[len(args) :])
    return result if result >= 0 else check(result, f"prctl {option}")


def unshare(flags: int) -> None:
    """unshare(2)."""
    check(_unshare(flags), f"unshare {flags:#x}")


def setns(namespace: int, kind: int) -> None:
    """setns(2)."""
    check(_setns(namespace, kind), f"setns {kind:#x}")


def number() -> ctypes.c_int:
    """Return an int that a system call can write to."""
    return ctypes.c_int()


def address(of: ctypes.c_int) -> int:
    """Return the address of an int, to pass to a system call."""
    return ctypes.addressof(of)


def trim() -> None:
    """Return unused memory of the heap to the kernel, if this C library can do so (malloc_trim(3), glibc only)."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


def flush() -> None:
    """fflush(3) on every stream."""
    _fflush(None)
