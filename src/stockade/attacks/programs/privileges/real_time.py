# /// attack
# guarantee = "privileges"
# summary = "Asks for real time, on a host that lets its users have it."
# reference = "sched(7), setrlimit(2), RLIMIT_RTPRIO"
# success = "it is granted"
# stage = ["real_time_for_all"]
# needs = ["raised-limits"]
# control = { touches = "its own process is of the real-time class for a moment" }
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, succeeded

attempt(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)), "EPERM")
succeeded()
