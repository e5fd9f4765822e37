"""The code of an interpreter in huge pages, for processes that are forked from it by the thousand.

A fork copies no page table of a file's pages: a child meets a fault for every 64 KiB of code that it comes to, in which
sixteen pages are mapped, and each is taken down again at its end. Anonymous memory is copied with the fork, and a huge
page of it (Documentation/admin-guide/mm/transhuge.rst) is one entry for 512. So the code is copied to huge pages, and
these are moved to where it was.
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HUGE = 2 << 20
"""Bytes; of the one architecture on which this is tried."""
_MOST = 4 * HUGE
# include/uapi/linux/mman.h, include/uapi/asm-generic/mman-common.h
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE, _ANONYMOUS = 0x02, 0x20
_HUGEPAGE = 14
_MAYMOVE, _FIXED = 1, 2

_C = ctypes.CDLL(None, use_errno=True)
_pointer, _size, _int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_mmap, _munmap, _mremap = _C["mmap"], _C["munmap"], _C["mremap"]
_mmap.restype, _mmap.argtypes = _pointer, (_pointer, _size, _int, _int, _int, ctypes.c_long)
_mremap.restype, _mremap.argtypes = _pointer, (_pointer, _size, _size, _int, _pointer)
_munmap.argtypes = (_pointer, _size)
_madvise, _mprotect = _C["madvise"], _C["mprotect"]
_madvise.argtypes = _mprotect.argtypes = (_pointer, _size, _int)
_FAILED = ctypes.c_void_p(-1).value


def of_interpreter() -> int:
    """Return an address in the code of the interpreter that runs this."""
    return ctypes.cast(ctypes.pythonapi.Py_IncRef, ctypes.c_void_p).value or 0


def hold_code(address: int) -> int:
    """Have the code around ``address``, and what lies beside it in the same file and is not to be written to, in huge
    pages from now on, as far as whole ones fit in; return how many bytes of it.

    0 where the kernel has none to give, or anything else forbids it (memory that was written to and is to be executed,
    under SELinux). There must be one thread. Copied bytes are private to this process and its children; tools that look
    for the file behind the code (perf, gdb) find none.
    """
    if os.uname().machine != "x86_64":
        return 0
    begin, end = _around(address)
    begin = -(-begin // HUGE) * HUGE
    size = min(end - begin, _MOST) // HUGE * HUGE
    if size <= 0:
        return 0
    room = _mmap(None, size + HUGE, _READ | _WRITE, _PRIVATE | _ANONYMOUS, -1, 0)
    if room == _FAILED:
        return 0
    copy = -(-room // HUGE) * HUGE
    # Should the kernel refuse the move, it may have unmapped the code by then: this process ends, and nobody needs it.
    moved = _fill(copy, begin, size) and _mremap(copy, size, size, _MAYMOVE | _FIXED, begin) == begin
    for at, left in ((room, copy - room), (copy, 0 if moved else size), (copy + size, room + HUGE - copy)):
        if left:
            _munmap(at, left)
    return size if moved else 0


def _fill(copy: int, begin: int, size: int) -> bool:
    """Copy the code; return whether it may be executed there, and is in huge pages all of it."""
    if _madvise(copy, size, _HUGEPAGE) < 0:
        return False
    ctypes.memmove(copy, begin, size)
    return _mprotect(copy, size, _READ | _EXECUTE) == 0 and _huge(copy) == size


def _around(address: int) -> tuple[int, int]:
    """Return the first and the last address, not included, of what is mapped without a gap of the file at ``address``,
    and cannot be written to."""
    begin = end = 0
    file = b""
    for line in _read("/proc/self/maps"):
        words = line.split(None, 5)
        first, last = (int(each, 16) for each in words[0].split(b"-"))
        name = words[5] if len(words) > 5 else b""
        if words[1] not in (b"r--p", b"r-xp") or not name.startswith(b"/"):
            continue
        if first != end or name != file:
            if begin <= address < end:
                break
            begin, file = first, name
        end = last
    return (begin, end) if begin <= address < end else (0, 0)


def _huge(address: int) -> int:
    """Return how many bytes of the mapping at ``address`` are in huge pages (proc_pid_smaps(5))."""
    wanted = b"%x-" % address
    found = False
    for line in _read("/proc/self/smaps"):
        if line.startswith(wanted):
            found = True
        elif found and line.startswith(b"AnonHugePages:"):
            return int(line.split()[1]) * 1024
    return 0


def _read(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from file
