# /// attack
# guarantee = "cpu_rate"
# summary = "Shares its loop out among children, each of which asks for little."
# reference = "sched-bwc.rst: the quota is the group's"
# success = "together they get more than 0.6 of a CPU"
# needs = ["cgroup-cpu"]
# alone = true
# policy = { limits = { cpu_rate = 0.25 } }
# admitted = { gvisor = "its own clock" }
# refusal = { default = "errno" }
# ///

import os
import time

from kit import could_not_run, refused, succeeded

begin = time.monotonic()
for _ in range(4):
    if os.fork() == 0:
        while time.monotonic() - begin < 1.0:
            pass
        os._exit(0)
for _ in range(4):
    os.wait()
used = os.times()
rate = (used.children_user + used.children_system) / (time.monotonic() - begin)
if rate > 0.6:
    succeeded(f"{rate:.2f}")
if rate > 0.35:
    could_not_run(f"{rate:.2f}, neither one nor the other")
refused(f"{rate:.2f} of a CPU, by four")
