# /// attack
# guarantee = "wall_time"
# summary = "Stops itself, so that nothing it could be asked to do would be done."
# reference = "signal(7), SIGSTOP"
# success = "three times the limit goes by"
# policy = { limits = { wall_time = 0.5 } }
# refusal = { process = "limit wall_time | denied EPERM", default = "limit wall_time" }
# ///

import os
import signal
import time

from kit import succeeded

parent = os.getpid()
if os.fork() == 0:
    os.setsid()
    time.sleep(1.5)
    os.kill(parent, signal.SIGCONT)
    os._exit(0)
os.kill(parent, signal.SIGSTOP)
succeeded()
