# /// attack
# guarantee = "cpu_time"
# summary = "Spends CPU time in a plain loop."
# reference = "setrlimit(2), RLIMIT_CPU"
# success = "three times the limit is spent"
# policy = { limits = { cpu_time = 0.5 } }
# refusal = { default = "limit cpu_time" }
# ///

import time

from kit import succeeded

while time.process_time() < 1.5:
    pass
succeeded()
