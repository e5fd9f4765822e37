# /// attack
# guarantee = "memory"
# summary = "Grows a list of byte strings."
# reference = "malloc(3)"
# success = "three times the limit is held"
# policy = { limits = { memory = "64MiB" } }
# refusal = { RLIMIT_DATA = "errno | limit memory", default = "limit memory" }
# ///

from kit import refused, succeeded

kept = []
try:
    for _ in range(192 * 16):
        kept.append(b"x" * 65536)
except MemoryError:
    del kept[:]
    refused("ENOMEM")
succeeded()
