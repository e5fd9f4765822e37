# /// attack
# guarantee = "privileges"
# summary = "Raises its own priority and asks for real time."
# reference = "nice(2), sched(7)"
# success = "one of the two is granted"
# needs = ["root"]
# control = { touches = "its own process is of the real-time class for a moment" }
# admitted = { gvisor = "gVisor's own" }
# refusal = { default = "errno" }
# ///

import os

from kit import refused, refused_with, succeeded

ways = [
    lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
    lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
]
if all(refused_with(way, "EPERM", "EACCES") for way in ways):
    refused("EPERM, EACCES")
succeeded()
