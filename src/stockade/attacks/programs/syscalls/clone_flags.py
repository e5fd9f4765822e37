# /// attack
# guarantee = "syscalls"
# summary = "Makes each kind of namespace by clone and by unshare."
# reference = "clone(2), unshare(2)"
# success = "one is made"
# needs = ["seccomp"]
# admitted = { gvisor = "the policy's filter does not apply" }
# refusal = { default = "errno" }
# ///

import os

from kit import CLONE_NEWUSER, refused, refused_with, succeeded, syscall, unshare

for flag in (CLONE_NEWUSER, CLONE_NEWUSER | 0x20000, CLONE_NEWUSER | 0x40000000, CLONE_NEWUSER | 0x20000000):
    made = []
    if not refused_with(lambda: made.append(syscall("clone", flag | 17, 0, 0, 0, 0)), "EPERM"):
        if made[0] == 0:
            os._exit(0)
        os.waitpid(made[0], 0)
        succeeded(hex(flag))
    if not refused_with(lambda: unshare(flag), "EPERM"):
        succeeded(hex(flag))
refused("EPERM")
