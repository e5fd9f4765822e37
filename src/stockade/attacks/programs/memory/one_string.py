# /// attack
# guarantee = "memory"
# summary = "Makes a single long string."
# reference = "malloc(3)"
# success = "three times the limit is held"
# policy = { limits = { memory = "64MiB" } }
# refusal = { RLIMIT_DATA = "errno", default = "limit memory" }
# ///

from kit import refused, succeeded

try:
    text = "x" * (192 << 20)
except MemoryError:
    refused("ENOMEM")
succeeded(len(text))
