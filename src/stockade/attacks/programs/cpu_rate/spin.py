# /// attack
# guarantee = "cpu_rate"
# summary = "Takes a whole CPU in a plain loop."
# reference = "sched-bwc.rst"
# success = "it gets more than 0.6 of a CPU for a second"
# needs = ["cgroup-cpu"]
# alone = true
# policy = { limits = { cpu_rate = 0.25 } }
# admitted = { gvisor = "its own clock" }
# refusal = { default = "errno" }
# ///

import time

from kit import could_not_run, refused, succeeded

begin, spent = time.monotonic(), time.process_time()
while time.monotonic() - begin < 1.0:
    pass
rate = (time.process_time() - spent) / (time.monotonic() - begin)
if rate > 0.6:
    succeeded(f"{rate:.2f}")
if rate > 0.35:
    could_not_run(f"{rate:.2f}, neither one nor the other")
refused(f"{rate:.2f} of a CPU")
