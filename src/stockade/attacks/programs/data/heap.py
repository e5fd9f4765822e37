# /// attack
# guarantee = "data"
# summary = "Grows its heap by private mappings, each below the limit."
# reference = "mmap(2), setrlimit(2): RLIMIT_DATA since Linux 4.7"
# success = "four times the limit is mapped"
# policy = { limits = { data = "64MiB" } }
# refusal = { default = "errno" }
# ///

import mmap

from kit import attempt, succeeded

areas = [attempt(lambda: mmap.mmap(-1, 16 << 20, mmap.MAP_PRIVATE), "ENOMEM") for _ in range(16)]
succeeded(len(areas))
