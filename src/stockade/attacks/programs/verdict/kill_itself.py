# /// attack
# guarantee = "verdict"
# summary = "Kills itself with the signal that ends runs which pass their limits."
# reference = "signal(7), SIGKILL"
# success = "who goes by signals believes that a limit was hit"
# control = { success = "signal SIGKILL" }
# refusal = { process = "verdict crashed SIGKILL | denied EPERM", default = "verdict crashed SIGKILL" }
# ///

import os
import signal

os.kill(os.getpid(), signal.SIGKILL)
