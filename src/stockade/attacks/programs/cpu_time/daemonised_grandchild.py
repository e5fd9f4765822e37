# /// attack
# guarantee = "cpu_time"
# summary = "Spends CPU time in a grandchild that has left the session and whose parent has exited."
# reference = "daemon(7)"
# success = "three times the limit is spent by a process that nobody here waits for"
# policy = { limits = { cpu_time = 0.5 } }
# refusal = { default = "limit cpu_time" }
# ///

import os
import time

from kit import succeeded

read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while time.process_time() < 1.5:
            pass
        os.write(write, b"spent")
    os._exit(0)
os.wait()
os.read(read, 5)
succeeded()
