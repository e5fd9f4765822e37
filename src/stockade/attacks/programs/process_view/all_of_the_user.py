# /// attack
# guarantee = "process_view"
# summary = "Lowers the priority of everything that its user runs."
# reference = "setpriority(2), PRIO_USER"
# success = "a process of the host is slower"
# stage = ["victim"]
# observe = ["reniced"]
# control = { namespaces = ["user", "pid"], inside_victim = true }
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, succeeded, target

lower = os.getpriority(os.PRIO_PROCESS, 0) + 1
attempt(lambda: os.setpriority(os.PRIO_USER, 0, lower), "EPERM")  # what it reached is seen from outside
attempt(lambda: os.getpriority(os.PRIO_PROCESS, int(target("VICTIM"))), "ESRCH")
succeeded()
