# /// attack
# guarantee = "syscalls"
# summary = "Loads a filter of its own that allows everything, over the one that is there, and tries again."
# reference = "seccomp(2): of several filters the strictest counts"
# success = "a refused call is allowed"
# needs = ["seccomp"]
# refusal = { default = "errno" }
# ///

import ctypes
import struct

from kit import attempt, check, could_not_run, libc, succeeded

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
allow = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000))
program = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", 1, ctypes.addressof(allow)))
c = libc()
check(c.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
if c.prctl(PR_SET_SECCOMP, 2, program, 0, 0):
    if ctypes.get_errno() not in (1, 13, 22):
        could_not_run(ctypes.get_errno())
attempt(lambda: check(c.personality(0x0400000)), "EPERM", "ENOSYS")
succeeded()
