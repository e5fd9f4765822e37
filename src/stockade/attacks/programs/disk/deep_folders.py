# /// attack
# guarantee = "disk"
# summary = "Makes folders in folders until nothing can be made any more, too deep for who would remove them by path."
# reference = "path_resolution(7), PATH_MAX"
# success = "2500 folders lie in each other"
# policy = { limits = { disk = "8MiB" } }
# admitted = { bubblewrap = "do not count", gvisor = "count as memory" }
# refusal = { default = "errno" }
# ///

import os

from kit import could_not_run, refused, refused_with, succeeded

for depth in range(2500):
    if refused_with(lambda: os.mkdir("d"), "ENOSPC"):
        if depth > 2100:
            could_not_run(f"refused at {depth}")
        refused(f"ENOSPC at a depth of {depth}")
    os.chdir("d")
succeeded()
