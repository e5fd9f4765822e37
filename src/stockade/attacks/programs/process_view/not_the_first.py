# /// attack
# guarantee = "process_view"
# summary = "Counts on being the first process, which signals pass by and which outlives its own death sentence."
# reference = "pid_namespaces(7)"
# success = "it is process 1, and SIGTERM to itself has no effect"
# control = { success = "signal SIGTERM" }
# refusal = { process = "crash SIGTERM | denied EPERM", default = "crash SIGTERM" }
# ///

import os
import signal

from kit import succeeded

os.kill(os.getpid(), signal.SIGTERM)
succeeded()
