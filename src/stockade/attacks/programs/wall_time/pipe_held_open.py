# /// attack
# guarantee = "wall_time"
# summary = "Exits and leaves a descendant that holds standard output open, so that whoever reads to the end waits."
# reference = "pipe(7): end-of-file comes when the last writer has closed"
# success = "who waits for the output waits two seconds"
# control = { success = "delayed 2" }
# refusal = { default = "prompt 1" }
# ///

import os
import signal
import time

if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    time.sleep(2.5)
    os._exit(0)
os._exit(42)
