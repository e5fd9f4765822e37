# /// attack
# guarantee = "memory"
# summary = "Writes to files in memory that have no name and lie on no mounted file system."
# reference = "memfd_create(2)"
# success = "three times the limit is held"
# policy = { limits = { memory = "64MiB", file_size = "256MiB" } }
# refusal = { RLIMIT_DATA = "errno | admitted memfd", default = "limit memory" }
# ///

import os

from kit import attempt, succeeded

fd = attempt(lambda: os.memfd_create("m"), "EPERM", "ENOSYS")
block = b"x" * (1 << 20)
for _ in range(192):
    os.write(fd, block)
succeeded()
