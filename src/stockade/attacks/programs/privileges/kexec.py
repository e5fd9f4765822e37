# /// attack
# guarantee = "privileges"
# summary = "Replaces the running kernel (by more segments than there can be)."
# reference = "kexec_load(2)"
# success = "the kernel goes on to look at what it was given"
# needs = ["root", "kexec"]
# control = { touches = "asks for another kernel, with arguments that are none" }
# refusal = { default = "errno" }
# ///

import os

from kit import could_not_run, refused, succeeded, syscall

number = {"x86_64": 246, "aarch64": 104}[os.uname().machine]
arguments = (0, 1 << 20, 0, 0)
try:
    syscall(number, *arguments)
except OSError as error:
    if error.errno in (22,):  # past the check of who asks: the arguments are no good, on purpose
        succeeded(error.strerror)
    if error.errno in (1, 38):
        refused("EPERM" if error.errno == 1 else "ENOSYS")
    could_not_run(error)
succeeded()
