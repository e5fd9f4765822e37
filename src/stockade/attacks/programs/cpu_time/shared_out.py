# /// attack
# guarantee = "cpu_time"
# summary = "Shares the work out among children of which none passes the limit by itself."
# reference = "setrlimit(2): RLIMIT_CPU counts each process alone"
# success = "four times the limit is spent, by four"
# policy = { limits = { cpu_time = 0.5 } }
# refusal = { default = "limit cpu_time" }
# ///

import os
import time

from kit import succeeded

for _ in range(4):
    if os.fork() == 0:
        while time.process_time() < 0.48:
            pass
        os._exit(0)
for _ in range(4):
    os.wait()
succeeded()
