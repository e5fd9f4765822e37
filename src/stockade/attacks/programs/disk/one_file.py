# /// attack
# guarantee = "disk"
# summary = "Fills the disk with one file."
# reference = "tmpfs(5), size"
# success = "four times the limit is written"
# policy = { limits = { disk = "8MiB" } }
# refusal = { bubblewrap = "says refused at 41", default = "errno" }
# ///

import os
import tempfile

from kit import could_not_run, refused, refused_with, succeeded

with tempfile.TemporaryFile(dir=".") as file:
    fd, block = file.fileno(), b"x" * 65536
    while os.fstat(fd).st_size < 32 << 20:
        if refused_with(lambda: os.write(fd, block), "ENOSPC"):
            if not (8 << 20) - 65536 <= os.fstat(fd).st_size <= 8 << 20:
                could_not_run(f"refused at {os.fstat(fd).st_size}")
            refused(f"ENOSPC at {os.fstat(fd).st_size}")
succeeded()
