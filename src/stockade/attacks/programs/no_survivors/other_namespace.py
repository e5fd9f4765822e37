# /// attack
# guarantee = "no_survivors"
# summary = "Hides a daemon in a PID namespace of its own."
# reference = "pid_namespaces(7)"
# success = "it lives when the first process has ended"
# control = { namespaces = ["user", "mount"] }
# observe = ["survivors"]
# refusal = { default = "prompt 2" }
# ///

import ctypes
import os
import time

from kit import CLONE_NEWPID, CLONE_NEWUSER, unshare

try:
    unshare(CLONE_NEWUSER | CLONE_NEWPID)
except OSError as error:
    if error.errno not in {1, 28}:  # EPERM, ENOSPC
        raise
if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(15, os.environ["ATTACK_MARKER"].encode(), 0, 0, 0)
    os.closerange(0, 16)
    time.sleep(60)
time.sleep(0.1)
os._exit(42)
