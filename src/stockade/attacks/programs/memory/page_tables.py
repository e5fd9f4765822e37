# /// attack
# guarantee = "memory"
# summary = "Reads a byte of every second mebibyte of a mapping: page tables grow, and no page does."
# reference = "mmap(2), proc_pid_status(5): VmPTE"
# success = "twice the limit lies in page tables"
# policy = { limits = { memory = "48MiB" } }
# refusal = { default = "limit memory" }
# ///

import ctypes
import time

from kit import could_not_run, libc, succeeded

STEP, TABLE = 2 << 20, 4096
MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE, MADV_NOHUGEPAGE = 0x2, 0x20, 0x4000, 15
tables = (96 << 20) // TABLE
size = ctypes.c_size_t(tables * STEP)
c = libc()
c.mmap.restype = ctypes.c_void_p
begin = c.mmap(None, size, 1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
if begin in (None, ctypes.c_void_p(-1).value):
    could_not_run("the mapping is refused")
c.madvise(ctypes.c_void_p(begin), size, MADV_NOHUGEPAGE)
for at in range(begin, begin + size.value, STEP):
    ctypes.string_at(at, 1)
time.sleep(0.5)
with open("/proc/self/status") as file:
    succeeded(next(line for line in file if line.startswith("VmPTE")))
