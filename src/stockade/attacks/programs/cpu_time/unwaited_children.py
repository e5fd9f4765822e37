# /// attack
# guarantee = "cpu_time"
# summary = "Spends CPU time in short-lived children that the kernel reaps unseen, so that nobody is charged for them."
# reference = "sigaction(2): with SIGCHLD ignored, children's times are in no one's rusage"
# success = "seven times the limit is spent"
# policy = { limits = { cpu_time = 0.3, wall_time = 1.2 } }
# refusal = { RLIMIT_CPU = "limit wall_time", default = "limit cpu_time" }
# ///

import os
import signal
import time

from kit import succeeded

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(140):
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        begin = time.process_time()
        while time.process_time() - begin < 0.015:
            pass
        os._exit(0)
    os.close(write)
    os.read(read, 1)  # end-of-file: it is gone, and nobody has waited for it
    os.close(read)
succeeded()
