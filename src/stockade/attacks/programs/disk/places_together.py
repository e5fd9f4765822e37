# /// attack
# guarantee = "disk"
# summary = "Spreads what it writes over all places that can be written, each below the limit."
# reference = "tmpfs(5)"
# success = "1.5 times the limit is written in three places"
# policy = { limits = { disk = "8MiB" } }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os
import tempfile

from kit import attempt, succeeded

files = [tempfile.TemporaryFile(dir=place) for place in ("/tmp", "/dev/shm", ".")]
for file in files:
    for _ in range(64):
        attempt(lambda: os.write(file.fileno(), b"x" * 65536), "ENOSPC")
succeeded()
