# /// attack
# guarantee = "process_view"
# summary = "Sends a signal to a process of the host."
# reference = "kill(2)"
# success = "it is dead"
# stage = ["victim"]
# observe = ["killed"]
# refusal = { process = "denied EPERM", default = "errno" }
# ///

import os
import signal as signals
import time

from kit import attempt, succeeded, target

attempt(lambda: os.kill(int(target("VICTIM")), signals.SIGKILL), "ESRCH")
time.sleep(0.2)
succeeded()
