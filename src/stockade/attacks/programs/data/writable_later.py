# /// attack
# guarantee = "data"
# summary = "Maps memory without rights, which is not counted, and makes it writable later."
# reference = "mprotect(2), setrlimit(2): RLIMIT_DATA since Linux 4.7"
# success = "four times the limit is private and writable"
# policy = { limits = { data = "64MiB" } }
# refusal = { default = "errno" }
# ///

import ctypes
import mmap

from kit import attempt, check, libc, succeeded

size = 256 << 20
library = libc()
library.mmap.restype = ctypes.c_void_p
area = library.mmap(None, ctypes.c_size_t(size), 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
attempt(
    lambda: check(library.mprotect(ctypes.c_void_p(area), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE)),
    "ENOMEM",
)
succeeded()
