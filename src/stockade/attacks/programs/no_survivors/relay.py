# /// attack
# guarantee = "no_survivors"
# summary = "Never stands still: each process makes the next one and ends, faster than a list of them can be read."
# reference = "fork(2)"
# success = "the relay runs on when the first process has ended"
# observe = ["survivors"]
# control = { seconds = 3 }
# refusal = { default = "prompt 2" }
# ///

import ctypes
import os
import time

end = time.monotonic() + 2.5
if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(15, os.environ["ATTACK_MARKER"].encode(), 0, 0, 0)
    os.closerange(0, 16)
    while time.monotonic() < end:
        time.sleep(0.01)
        if os.fork():
            os._exit(0)
    os._exit(0)
time.sleep(0.2)
os._exit(42)
