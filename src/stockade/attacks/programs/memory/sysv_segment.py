# /// attack
# guarantee = "memory"
# summary = "Fills a System V shared memory segment and lets go of it: it belongs to no process."
# reference = "shmget(2), shmat(2)"
# success = "three times the limit is held"
# policy = { limits = { memory = "64MiB" } }
# refusal = { process = "errno EPERM", RLIMIT_DATA = "errno | admitted shared", default = "limit memory" }
# ///

import ctypes

from kit import attempt, check, libc, succeeded

c = libc()
c.shmat.restype = ctypes.c_void_p
size = 48 << 20
segments = []
for _ in range(4):
    segment = attempt(lambda: check(c.shmget(0, ctypes.c_size_t(size), 0o600)), "EPERM", "ENOSPC", "ENOSYS")
    segments.append(segment)
    for begin in range(0, size, size // 8):  # a piece at a time: what is attached is resident
        address = c.shmat(segment, None, 0)
        ctypes.memset(address + begin, 1, size // 8)
        c.shmdt(ctypes.c_void_p(address))
for segment in segments:
    c.shmctl(segment, 0, None)
succeeded()
