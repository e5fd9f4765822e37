# /// attack
# guarantee = "memory"
# summary = "Fills pipes that nobody reads: their buffers are the kernel's memory."
# reference = "pipe(7), F_SETPIPE_SZ"
# success = "twice the limit lies in pipes"
# needs = ["cgroup-memory"]
# policy = { limits = { memory = "24MiB" } }
# refusal = { default = "limit memory" }
# ///

import fcntl
import os

from kit import could_not_run, succeeded

held = 0
for _ in range(48):
    _, write = os.pipe()
    os.set_blocking(write, False)
    try:
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 1 << 20)
    except PermissionError:
        could_not_run("the user's pipes are full already")
    held += os.write(write, b"x" * (1 << 20))
succeeded(held)
