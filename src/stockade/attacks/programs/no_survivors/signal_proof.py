# /// attack
# guarantee = "no_survivors"
# summary = "Leaves a daemon behind that no signal but the last one can end."
# reference = "signal(7)"
# success = "it lives when the first process has ended"
# observe = ["survivors"]
# refusal = { default = "prompt 2" }
# ///

import ctypes
import os
import signal
import time

marker = os.environ["ATTACK_MARKER"]
if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(15, marker.encode(), 0, 0, 0)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.closerange(0, 16)
        while True:
            time.sleep(1)
    os._exit(0)
os.wait()
time.sleep(0.1)
os._exit(42)
