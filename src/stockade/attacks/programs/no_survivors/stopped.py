# /// attack
# guarantee = "no_survivors"
# summary = "Leaves a stopped process behind, to be continued later."
# reference = "signal(7), SIGSTOP"
# success = "it is there when the first process has ended"
# observe = ["survivors"]
# refusal = { default = "prompt 2" }
# ///

import ctypes
import os
import signal
import time

if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(15, os.environ["ATTACK_MARKER"].encode(), 0, 0, 0)
    os.closerange(0, 16)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
time.sleep(0.1)
os._exit(42)
