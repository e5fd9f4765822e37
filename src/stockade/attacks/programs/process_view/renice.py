# /// attack
# guarantee = "process_view"
# summary = "Lowers the priority of another process: one of the host's, or its own init, which then ends the run late."
# reference = "setpriority(2): the same user's processes need no privilege"
# success = "it is lower"
# stage = ["victim"]
# observe = ["reniced"]
# confined = { ATTACK_VICTIM = "1" }
# admitted = { gvisor = "gVisor's own" }
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, succeeded, target

attempt(lambda: os.setpriority(os.PRIO_PROCESS, int(target("VICTIM")), 19), "EPERM", "EACCES")
succeeded()
