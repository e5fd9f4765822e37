# /// attack
# guarantee = "output"
# summary = "Floods standard output from a descendant after the first process has exited."
# reference = "pipe(7)"
# success = "16 MiB are read by somebody"
# control = { success = "bytes stdout 16777216" }
# refusal = { default = "prompt 1" }
# ///

import os
import time

if os.fork() == 0:
    os.setsid()
    time.sleep(0.3)
    for _ in range(256):
        os.write(1, b"x" * 65536)
    os._exit(0)
os._exit(42)
