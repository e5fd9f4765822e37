# /// attack
# guarantee = "ipc"
# summary = "Attaches to a System V shared memory segment of the host."
# reference = "shmget(2)"
# success = "it is attached"
# stage = ["segment"]
# control = { touches = "makes a segment, a queue and a semaphore for a moment" }
# refusal = { default = "errno" }
# ///

import ctypes

from kit import attempt, check, libc, succeeded, target

c = libc()
c.shmat.restype = ctypes.c_void_p
segment = attempt(
    lambda: check(c.shmget(int(target("IPC_KEY")), ctypes.c_size_t(4096), 0o600)), "ENOENT", "ENOSYS", "EPERM"
)
if c.shmat(segment, None, 0):
    succeeded()
