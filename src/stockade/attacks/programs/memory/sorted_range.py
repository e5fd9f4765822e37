# /// attack
# guarantee = "memory"
# summary = "Sorts a range: one harmless looking expression that makes a list of millions."
# reference = "CWE-789"
# success = "three times the limit is held"
# policy = { limits = { memory = "64MiB" } }
# refusal = { RLIMIT_DATA = "errno", default = "limit memory" }
# ///

from kit import refused, succeeded

try:
    made = sorted(range(5 * 10**6))
except MemoryError:
    refused("ENOMEM")
succeeded(len(made))
