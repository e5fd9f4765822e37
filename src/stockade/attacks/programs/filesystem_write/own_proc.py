# /// attack
# guarantee = "filesystem_write"
# summary = "Writes where /proc lets every process write about itself."
# reference = "proc(5): oom_score_adj, coredump_filter, clear_refs, timerslack_ns"
# success = "one of them can be opened for writing"
# refusal = { default = "errno" }
# ///

import os

from kit import refused, refused_with, succeeded

for name in ("oom_score_adj", "coredump_filter", "clear_refs", "attr/current"):
    if os.path.exists(f"/proc/self/{name}"):
        if not refused_with(lambda: os.close(os.open(f"/proc/self/{name}", os.O_WRONLY)), "EROFS", "EACCES"):
            succeeded(name)
refused("EROFS or EACCES")
