# /// attack
# guarantee = "privileges"
# summary = "Asks for the size of the log of the kernel, the first step to its addresses."
# reference = "syslog(2)"
# success = "the kernel goes on to look at what it was given"
# needs = ["root"]
# refusal = { default = "errno" }
# ///

import os

from kit import could_not_run, refused, succeeded, syscall

number = {"x86_64": 103, "aarch64": 116}[os.uname().machine]
arguments = (9, 0, 0)
try:
    syscall(number, *arguments)
except OSError as error:
    if error.errno in (1, 38):
        refused("EPERM" if error.errno == 1 else "ENOSYS")
    could_not_run(error)
succeeded()
