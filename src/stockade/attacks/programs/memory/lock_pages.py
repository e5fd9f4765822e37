# /// attack
# guarantee = "memory"
# summary = "Locks pages in memory past what an unprivileged process may."
# reference = "mlock(2), RLIMIT_MEMLOCK"
# success = "a mebibyte is locked"
# refusal = { default = "errno" }
# ///

import ctypes
import mmap

from kit import attempt, check, libc, succeeded

area = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.addressof(ctypes.c_char.from_buffer(area))
attempt(lambda: check(libc().mlock(ctypes.c_void_p(address), ctypes.c_size_t(1 << 20))), "ENOMEM", "EPERM")
succeeded()
