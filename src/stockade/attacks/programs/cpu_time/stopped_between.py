# /// attack
# guarantee = "cpu_time"
# summary = "Stops and continues the process that spends CPU time, so that it is seldom seen running."
# reference = "signal(7), SIGSTOP"
# success = "three times the limit is spent"
# policy = { limits = { cpu_time = 0.5 } }
# refusal = { default = "limit cpu_time" }
# ///

import os
import signal
import time

from kit import succeeded

child = os.fork()
if child == 0:
    while time.process_time() < 1.5:
        pass
    os._exit(0)
while os.waitpid(child, os.WNOHANG)[0] == 0:
    time.sleep(0.03)
    os.kill(child, signal.SIGSTOP)
    time.sleep(0.005)
    os.kill(child, signal.SIGCONT)
succeeded()
