# /// attack
# guarantee = "disk"
# summary = "Deletes what it has written and keeps it open: it is in no folder and takes its space still."
# reference = "unlink(2)"
# success = "four times the limit is held by files without a name"
# policy = { limits = { disk = "8MiB" } }
# refusal = { default = "errno" }
# ///

import os
import tempfile

from kit import attempt, succeeded

kept = []
for _ in range(32):
    kept.append(attempt(lambda: tempfile.TemporaryFile(dir="."), "ENOSPC"))
    for _ in range(16):
        attempt(lambda: os.write(kept[-1].fileno(), b"x" * 65536), "ENOSPC")
succeeded()
