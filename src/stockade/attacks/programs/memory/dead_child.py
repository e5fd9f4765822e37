# /// attack
# guarantee = "memory"
# summary = "Lets a child take the memory, ignores that it is killed for it, and ends well."
# reference = "cgroup-v1/memory.rst: the out-of-memory killer takes one task, not the group"
# success = "the child holds three times the limit"
# policy = { limits = { memory = "64MiB" } }
# refusal = { RLIMIT_DATA = "errno", default = "limit memory" }
# ///

import os

from kit import refused, succeeded

child = os.fork()
if child == 0:
    try:
        kept = bytearray(b"x") * (192 << 20)
    except MemoryError:
        os._exit(3)
    os._exit(len(kept) and 5)
_, status = os.waitpid(child, 0)
if os.waitstatus_to_exitcode(status) == 3:
    refused("ENOMEM")
if os.waitstatus_to_exitcode(status) == 5:
    succeeded()
os._exit(0)  # whoever goes by the exit status of the first process is taken in
