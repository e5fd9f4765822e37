"""Load a seccomp program into the calling process.

The side inside the sandbox needs only this module. It imports no tables, so that it starts at once. The caller builds
programs (`filters.build`), and passes them here as bytes.
"""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SET_MODE_FILTER = 1
_GET_NOTIF_SIZES = 3
_FLAG_TSYNC = 1 << 0
_FLAG_NEW_LISTENER = 1 << 3
_FLAG_TSYNC_ESRCH = 1 << 4
_PR_SET_NO_NEW_PRIVS = 38
_INSTRUCTION_SIZE = 8
_SECCOMP_NUMBER = {"x86_64": 317, "aarch64": 277}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class _Sizes(ctypes.Structure):
    _fields_ = (("notice", ctypes.c_uint16), ("reply", ctypes.c_uint16), ("data", ctypes.c_uint16))


_libc = ctypes.CDLL(None, use_errno=True)


def install(program: bytes) -> None:
    """Permanently confine every thread of this process, and all it starts, to `program`.

    This function sets no_new_privs first. Without it, only a privileged process may load a filter, because a setuid
    program would run under a filter that it does not expect.
    """
    unwilling = _load(program, _FLAG_TSYNC)
    if unwilling:
        raise OSError(errno.ESRCH, f"thread {unwilling} runs under another filter; nothing was loaded")


def install_with_listener(program: bytes) -> int:
    """Do the same as `install`; return the descriptor on which a supervisor receives NOTIFY calls.

    The descriptor is close-on-exec. While it is open, a call that the program answers with NOTIFY waits for the
    supervisor. Once all copies are closed, such a call fails with ENOSYS. A process can have one listener only (EBUSY).
    Needs Linux 5.7.
    """
    return _load(program, _FLAG_TSYNC | _FLAG_TSYNC_ESRCH | _FLAG_NEW_LISTENER)


def loading(program: bytes, *, listening: bool = False) -> tuple[Any, ...]:
    """Return the arguments of syscall(2) by which `install`, or `install_with_listener`, confines a process.

    The process must have one thread, and no_new_privs set.
    """
    length = len(program) // _INSTRUCTION_SIZE
    flags = _FLAG_NEW_LISTENER if listening else 0
    number = _SECCOMP_NUMBER[os.uname().machine]
    pointer = ctypes.pointer(_Program(length, program))
    return (ctypes.c_long(number), ctypes.c_ulong(_SET_MODE_FILTER), ctypes.c_ulong(flags), pointer)


def notification_sizes() -> tuple[int, int]:
    """Return the kernel's sizes of struct seccomp_notif and struct seccomp_notif_resp."""
    sizes = _Sizes()
    _seccomp(_GET_NOTIF_SIZES, 0, ctypes.byref(sizes))
    return sizes.notice, sizes.reply


def _load(program: bytes, flags: int) -> int:
    length, rest = divmod(len(program), _INSTRUCTION_SIZE)
    if rest or not length:
        raise ValueError(f"{len(program)} bytes are not a seccomp program")
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))):
        raise _error("prctl(PR_SET_NO_NEW_PRIVS)")
    return _seccomp(_SET_MODE_FILTER, flags, ctypes.byref(_Program(length, program)))


def _seccomp(operation: int, flags: int, argument: object) -> int:
    number = _SECCOMP_NUMBER[os.uname().machine]
    result: int = _libc.syscall(ctypes.c_long(number), ctypes.c_ulong(operation), ctypes.c_ulong(flags), argument)
    if result < 0:
        raise _error("seccomp")
    return result


def _error(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{what}: {os.strerror(code)}")
