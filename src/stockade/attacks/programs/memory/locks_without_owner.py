# /// attack
# guarantee = "memory"
# summary = "Locks bytes in the name of an open file: the kernel's list of locks names no process for them."
# reference = "fcntl(2): F_OFD_SETLK"
# success = "a lock is held"
# refusal = { default = "errno" }
# ///

import fcntl
import struct
import tempfile

from kit import attempt, succeeded

LOCK = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0)
with tempfile.TemporaryFile() as file:
    attempt(lambda: fcntl.fcntl(file, fcntl.F_OFD_SETLK, LOCK), "EINVAL")
    succeeded()
