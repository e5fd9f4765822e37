# /// attack
# guarantee = "ipc"
# summary = "Attaches to a System V shared memory segment of the host by its number, without its key."
# reference = "shmat(2)"
# success = "it is attached"
# stage = ["segment"]
# refusal = { default = "errno" }
# ///

import ctypes

from kit import attempt, check, libc, succeeded, target

c = libc()
c.shmat.restype = ctypes.c_long
attempt(lambda: check(c.shmat(int(target("SEGMENT")), None, 0)), "EINVAL", "ENOSYS", "EPERM")
succeeded()
