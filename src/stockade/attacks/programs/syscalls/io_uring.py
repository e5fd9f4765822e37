# /// attack
# guarantee = "syscalls"
# summary = "Makes an io_uring, through which files and sockets are used without system calls of their own."
# reference = "io_uring_setup(2)"
# success = "the ring is there"
# needs = ["seccomp"]
# admitted = { gvisor = "the policy's filter does not apply" }
# refusal = { default = "errno" }
# ///

import ctypes

from kit import attempt, succeeded, syscall

parameters = (ctypes.c_uint32 * 30)()
attempt(lambda: syscall(425, 4, parameters), "EPERM", "ENOSYS")
succeeded()
