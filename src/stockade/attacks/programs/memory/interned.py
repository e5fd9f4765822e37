# /// attack
# guarantee = "memory"
# summary = "Interns strings, which no garbage collection of its own need ever drop."
# reference = "sys.intern"
# success = "three times the limit is held"
# policy = { limits = { memory = "64MiB" } }
# refusal = { RLIMIT_DATA = "errno | limit memory", default = "limit memory" }
# ///

import sys

from kit import refused, succeeded

kept = []
try:
    for number in range(192 * 16):
        kept.append(sys.intern(f"{number:065000d}"))
except MemoryError:
    del kept[:]
    refused("ENOMEM")
succeeded()
