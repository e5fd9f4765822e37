# /// attack
# guarantee = "no_survivors"
# summary = "Leaves a daemon behind."
# reference = "daemon(7)"
# success = "it lives when the first process has ended"
# observe = ["survivors"]
# refusal = { default = "prompt 2" }
# ///

import os
import time

marker = os.environ["ATTACK_MARKER"]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("/proc/self/comm", "w") if os.access("/proc/self/comm", os.W_OK) else open("/dev/null", "w") as file:
            file.write(marker)
        for fd in (0, 1, 2, 3):
            try:
                os.close(fd)
            except OSError:
                continue
        os.execv("/bin/sh", [marker, "-c", "while :; do sleep 0.1; done", marker])
    os._exit(0)
os.wait()
time.sleep(0.1)
os._exit(42)
