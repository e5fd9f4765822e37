# /// attack
# guarantee = "address_space"
# summary = "Reserves address space piece by piece, without touching it."
# reference = "mmap(2), setrlimit(2)"
# success = "four times the limit is reserved"
# policy = { limits = { address_space = "256MiB" } }
# refusal = { default = "errno" }
# ///

import mmap

from kit import attempt, succeeded

areas = [attempt(lambda: mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE, mmap.PROT_READ), "ENOMEM") for _ in range(16)]
succeeded(len(areas))
