# /// attack
# guarantee = "disk"
# summary = "Stores its bytes in extended attributes rather than in files."
# reference = "xattr(7); tmpfs has user attributes since Linux 6.6"
# success = "four times the limit is stored"
# policy = { limits = { disk = "8MiB" } }
# admitted = { bubblewrap = "do not count", gvisor = "count as memory" }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os
import tempfile

from kit import attempt, succeeded

with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
    value = b"x" * 1024
    for number in range(32 << 10):
        # EOPNOTSUPP: an older kernel, which stores none at all
        attempt(lambda: os.setxattr(file.name, f"user.{number}", value), "ENOSPC", "EOPNOTSUPP")
succeeded()
