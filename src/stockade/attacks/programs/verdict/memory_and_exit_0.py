# /// attack
# guarantee = "verdict"
# summary = "Has a child killed for its memory and exits with 0."
# reference = "cgroup-v1/memory.rst"
# success = "who goes by the first process's status believes that all went well"
# needs = ["cgroup-memory"]
# policy = { limits = { memory = "64MiB" } }
# control = { success = "status 0" }
# refusal = { default = "verdict limit_exceeded memory" }
# ///

import os

if os.fork() == 0:
    kept = bytearray(b"x") * (192 << 20)
    os._exit(0)
os.wait()
os._exit(0)
