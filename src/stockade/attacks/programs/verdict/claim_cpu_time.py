# /// attack
# guarantee = "verdict"
# summary = "Sends itself the signal by which the kernel says that CPU time is up."
# reference = "signal(7), SIGXCPU"
# success = "who goes by signals believes it"
# control = { success = "signal SIGXCPU" }
# refusal = { process = "verdict crashed SIGXCPU | denied EPERM", default = "verdict crashed SIGXCPU" }
# ///

import os
import signal

signal.signal(signal.SIGXCPU, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGXCPU)
