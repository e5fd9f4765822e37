# /// attack
# guarantee = "memory"
# summary = "Shares the memory out among grandchildren of which none passes the limit by itself."
# reference = "setrlimit(2): RLIMIT_DATA counts each process alone"
# success = "three times the limit is held at one time, by six"
# policy = { limits = { memory = "64MiB" } }
# refusal = { default = "limit memory" }
# ///

import os
import time

from kit import could_not_run, succeeded

ready, tell = os.pipe()
hold, release = os.pipe()
for _ in range(6):
    if os.fork() == 0:
        if os.fork() == 0:
            os.close(release)
            try:
                kept = bytearray(b"x") * (32 << 20)
            except MemoryError:
                os.write(tell, b"-")
                os._exit(0)
            time.sleep(0.1)
            os.write(tell, b"+")
            os.read(hold, 1)
        os._exit(0)
    os.wait()
words = b"".join(os.read(ready, 1) for _ in range(6))
if words != b"++++++":
    could_not_run(words)
succeeded()
