"""Make a fork copy chosen pages at once, instead of at the first write to each.

The first write to a page that a fork has left shared causes a fault. It costs several times as much as a copy of the
page. If it is known which pages a child will write to, it is cheaper to copy them with the fork.

The kernel does so for a pinned page, since a device may be using it (``copy_present_page`` in mm/memory.c, Linux 5.9).
An io_uring with registered buffers can pin pages without a device (io_uring_register(2)). Ours serves no other purpose:
before it is enabled, it is restricted to doing nothing (Linux 5.10).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from stockade.linux import libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Run = tuple[int, int, bool]
    """Consecutive pages: address, length in bytes, and whether they belong to no file."""

_mincore = ctypes.CDLL(None)["mincore"]
_mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
PAGE = os.sysconf("SC_PAGE_SIZE")
# Documentation/admin-guide/mm/pagemap.rst
_PRESENT, _FILE, _EXCLUSIVE = 1 << 63, 1 << 61, 1 << 56
_ENTRY = 8
# include/uapi/linux/io_uring.h
_PARAMETERS = struct.Struct("=10I80x")
_DISABLED = 1 << 6
_BUFFERS, _RESTRICTIONS, _ENABLE = 0, 11, 12
_ONLY = struct.pack("=HBxIII", 0, _ENABLE, 0, 0, 0) + struct.pack("=HBxIII", 1, 0, 0, 0, 0)
"""The only permitted registration is to enable the ring, which has happened by then. The only permitted operation is
IORING_OP_NOP.
"""
_MOST_RUNS = 1024
"""Most buffers of one ring before Linux 5.13."""


def own_pages(maps: int, pagemap: int) -> list[Run]:
    """Return the writable pages that belong to one process alone: it has written to them since its fork.

    ``maps`` and ``pagemap`` are descriptors of the files of the process (proc_pid_pagemap(5)). Its stack is left out.
    The function uses only ``lseek`` and ``read``, since a filter may be in force already.
    """
    runs: list[Run] = []
    for line in _read(maps, 0, None).splitlines():
        words = line.split()
        if words[1] != b"rw-p" or words[5:] == [b"[stack]"]:
            continue
        begin, end = (int(each, 16) for each in words[0].split(b"-"))
        anonymous = words[4] == b"0"
        entries = _read(pagemap, begin // PAGE * _ENTRY, (end - begin) // PAGE * _ENTRY)
        for at, (entry,) in zip(range(begin, end, PAGE), struct.iter_unpack("=Q", entries), strict=False):
            if not entry & _PRESENT or not entry & _EXCLUSIVE or entry & _FILE:
                continue
            if runs and runs[-1][0] + runs[-1][1] == at and runs[-1][2] == anonymous:
                runs[-1] = (runs[-1][0], runs[-1][1] + PAGE, anonymous)
            else:
                runs.append((at, PAGE, anonymous))
    return runs


def _read(fd: int, at: int, length: int | None) -> bytes:
    os.lseek(fd, at, os.SEEK_SET)
    content = b""
    while (length is None or len(content) < length) and (
        data := os.read(fd, 1 << 16 if length is None else length - len(content))
    ):
        content += data
    return content


def open_ring() -> int:
    """Return the descriptor of a ring that can pin pages.

    Raises ``OSError`` if the kernel refuses one (``kernel.io_uring_disabled``). Pinned memory counts against the locked
    memory (``RLIMIT_MEMLOCK``) of the real user at this moment.
    """
    ring = libc.syscall("io_uring_setup", 1, ctypes.create_string_buffer(_PARAMETERS.pack(0, 0, _DISABLED, *[0] * 7)))
    os.set_inheritable(ring, False)
    return ring


def pin(ring: int, runs: Iterable[Run]) -> None:
    """Make each fork of this process copy these pages, as long as the ring is open.

    Afterwards, no holder of the ring can do anything else with it. Unmapped pages are left out. If the limit on locked
    memory is too small for all, the longest runs come first. Raises ``OSError`` if no page can be pinned.
    """
    left = sorted((part for run in runs for part in _mapped(run)), key=lambda run: -run[1])[:_MOST_RUNS]
    while not _register(ring, left):
        left = left[: len(left) // 2]  # half of the runs, and more than half of the pages
    libc.syscall("io_uring_register", ring, _RESTRICTIONS, ctypes.create_string_buffer(_ONLY), 2)
    libc.syscall("io_uring_register", ring, _ENABLE, 0, 0)


def _mapped(run: Run) -> Iterator[Run]:
    """Yield the mapped parts of a run (mincore(2)): one unmapped page would make the kernel refuse all runs."""
    address, length, anonymous = run
    begin = None
    for at in range(address, address + length, PAGE):
        there = _mincore(at, PAGE, ctypes.create_string_buffer(1)) == 0
        if there and begin is None:
            begin = at
        if not there and begin is not None:
            yield begin, at - begin, anonymous
            begin = None
    if begin is not None:
        yield begin, address + length - begin, anonymous


def _register(ring: int, runs: list[Run]) -> bool:
    """Pin ``runs``; return whether they fit in the limit."""
    vectors = b"".join(struct.pack("@PN", address, length) for address, length, _ in runs)
    try:
        libc.syscall("io_uring_register", ring, _BUFFERS, ctypes.create_string_buffer(vectors), len(runs))
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP and not all(run[2] for run in runs):
            return _register(ring, [run for run in runs if run[2]])  # older kernels cannot pin a private copy of it
        if error.errno != errno.ENOMEM:
            raise
        return False
    return True
