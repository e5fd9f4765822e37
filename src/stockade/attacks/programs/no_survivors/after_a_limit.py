# /// attack
# guarantee = "no_survivors"
# summary = "Runs into a limit with a daemon in the background."
# reference = "daemon(7)"
# success = "the daemon lives when the first process is ended"
# observe = ["survivors"]
# policy = { limits = { wall_time = 0.5 } }
# refusal = { gvisor = "limit wall_time | verdict sandbox_failed", default = "limit wall_time" }
# ///

import ctypes
import os
import time

if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(15, os.environ["ATTACK_MARKER"].encode(), 0, 0, 0)
    os.closerange(0, 16)
    time.sleep(60)
time.sleep(1.5)
os._exit(42)
