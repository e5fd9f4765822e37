# /// attack
# guarantee = "memory"
# summary = "Maps private memory straight from the kernel and touches every page."
# reference = "mmap(2)"
# success = "three times the limit is touched"
# policy = { limits = { memory = "64MiB" } }
# refusal = { RLIMIT_DATA = "errno", default = "limit memory" }
# ///

import mmap

from kit import attempt, succeeded

size = 192 << 20
area = attempt(lambda: mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), "ENOMEM")
for offset in range(0, size, 4096):
    area[offset] = 1
succeeded()
