# /// attack
# guarantee = "process_view"
# summary = "Sends a signal to everything that it may send one to."
# reference = "kill(2), pid -1"
# success = "something else is dead"
# control = { namespaces = ["user", "pid"], inside_victim = true }
# observe = ["victim_killed"]
# refusal = { process = "errno | denied EPERM", default = "errno" }
# ///

import os
import signal
import time

from kit import attempt, succeeded

attempt(lambda: os.kill(-1, signal.SIGTERM), "ESRCH")
time.sleep(0.2)
succeeded()
