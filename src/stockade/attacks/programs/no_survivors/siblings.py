# /// attack
# guarantee = "no_survivors"
# summary = "Makes processes that are its parent's children and not its own."
# reference = "clone(2), CLONE_PARENT"
# success = "one lives when the first process has ended"
# observe = ["survivors"]
# refusal = { default = "prompt 2 | errno" }
# ///

import ctypes
import os
import time

from kit import attempt, syscall

CLONE_PARENT = 0x8000
pid = attempt(lambda: syscall("clone", CLONE_PARENT | 17, 0, 0, 0, 0), "EPERM")
if pid == 0:
    ctypes.CDLL(None).prctl(15, os.environ["ATTACK_MARKER"].encode(), 0, 0, 0)
    os.closerange(0, 16)
    while True:
        time.sleep(1)
time.sleep(0.1)
os._exit(42)
