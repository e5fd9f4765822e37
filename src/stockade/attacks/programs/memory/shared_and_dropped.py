# /// attack
# guarantee = "memory"
# summary = "Touches shared anonymous memory and drops it: the resident size falls, the contents stay."
# reference = "madvise(2), MADV_DONTNEED"
# success = "three times the limit is held while the resident size stays small"
# policy = { limits = { memory = "64MiB" } }
# refusal = { RLIMIT_DATA = "errno | admitted shared", default = "limit memory" }
# ///

import mmap

from kit import attempt, could_not_run, succeeded

size, step = 192 << 20, 4 << 20
area = attempt(lambda: mmap.mmap(-1, size), "EPERM", "ENOMEM")
block = b"x" * step
for offset in range(0, size, step):
    area[offset : offset + step] = block
    area.madvise(mmap.MADV_DONTNEED, offset, step)
if area[size - 1] != ord("x") or area[0] != ord("x"):
    could_not_run("the contents are gone")
succeeded()
