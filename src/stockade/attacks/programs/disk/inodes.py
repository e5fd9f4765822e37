# /// attack
# guarantee = "disk"
# summary = "Fills the disk with empty files, which need no bytes but an inode each."
# reference = "tmpfs(5), nr_inodes"
# success = "8000 files stand"
# policy = { limits = { disk = "8MiB" } }
# admitted = { bubblewrap = "do not count", gvisor = "count as memory" }
# refusal = { default = "errno" }
# ///

import os
import shutil
import tempfile

from kit import could_not_run, refused, refused_with, succeeded

folder = tempfile.mkdtemp(dir=".")
try:
    for count in range(8000):
        if refused_with(lambda: os.close(os.open(f"{folder}/{count}", os.O_CREAT)), "ENOSPC"):
            if count > 2100:
                could_not_run(f"refused at {count}")
            refused(f"ENOSPC at {count} files")
finally:
    shutil.rmtree(folder)
succeeded()
