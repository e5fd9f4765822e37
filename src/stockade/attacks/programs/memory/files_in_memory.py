# /// attack
# guarantee = "memory"
# summary = "Writes files where files are memory."
# reference = "tmpfs(5)"
# success = "three times the limit on memory lies in files"
# policy = { limits = { memory = "64MiB", disk = "128MiB", file_size = "256MiB" } }
# refusal = { bubblewrap = "errno ENOSPC", process = "denied EACCES", RLIMIT_DATA = "errno", default = "limit memory" }
# ///

import os
import tempfile

from kit import attempt, succeeded

block = b"x" * (1 << 20)
with tempfile.TemporaryFile(dir="/dev/shm") as file:
    for _ in range(192):
        # Without a memory cgroup the size of the file system is what bounds it.
        attempt(lambda: os.write(file.fileno(), block), "ENOSPC")
succeeded()
