# /// attack
# guarantee = "process_view"
# summary = "Signals the supervisor of all runs, by its number on the host."
# reference = "kill(2)"
# success = "it is dead or stopped"
# stage = ["warden"]
# observe = ["killed"]
# refusal = { process = "denied EPERM", default = "errno ESRCH" }
# ///

import os
import signal
import time

from kit import attempt, succeeded, target

attempt(lambda: os.kill(int(target("VICTIM")), signal.SIGSTOP), "ESRCH")
time.sleep(0.2)
succeeded()
