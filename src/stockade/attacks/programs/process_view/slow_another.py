# /// attack
# guarantee = "process_view"
# summary = "Takes the CPU from another process by its scheduling: one of the host's, or its own init, which ends the run."
# reference = "sched(7), sched_setaffinity(2): the same user's processes need no privilege"
# success = "the process is of the idle class and bound to one CPU"
# stage = ["victim"]
# confined = { ATTACK_VICTIM = "1" }
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, succeeded, target

victim = int(target("VICTIM"))
attempt(lambda: os.sched_setaffinity(victim, {min(os.sched_getaffinity(0))}), "EPERM")
attempt(lambda: os.sched_setscheduler(victim, os.SCHED_IDLE, os.sched_param(0)), "EPERM")
succeeded()
