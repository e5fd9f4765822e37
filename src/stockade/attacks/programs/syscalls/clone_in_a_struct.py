# /// attack
# guarantee = "syscalls"
# summary = "Makes a user namespace by clone3, whose flags no filter can read."
# reference = "clone3(2)"
# success = "the child is in a new user namespace"
# needs = ["seccomp"]
# refusal = { default = "errno" }
# ///

import ctypes
import os

from kit import CLONE_NEWUSER, attempt, succeeded, syscall

arguments = (ctypes.c_uint64 * 11)(CLONE_NEWUSER, 0, 0, 0, 17)
pid = attempt(lambda: syscall(435, arguments, 88), "ENOSYS")
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
succeeded()
