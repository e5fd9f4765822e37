"""The frequency of this CPU's time stamp counter: an emulated machine gets it, since it cannot measure it well."""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Callable

# rdtsc; shl rdx, 32; or rax, rdx; ret
_READ_COUNTER = bytes.fromhex("0f31 48c1e220 4809d0 c3")
_SECONDS = 0.2


def counter_khz() -> int:
    """Return the frequency of the time stamp counter (x86-64)."""
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as page:
        page.write(_READ_COUNTER)
        here = ctypes.c_char.from_buffer(page)
        read: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(here))
        first, begin = read(), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        time.sleep(_SECONDS)
        last, end = read(), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        del read, here  # or the page cannot be closed
    return round((last - first) * 1_000_000 / (end - begin))
