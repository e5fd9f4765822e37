# /// attack
# guarantee = "privileges"
# summary = "Restarts the machine (with a magic number that is none)."
# reference = "reboot(2)"
# success = "the kernel goes on to look at what it was given"
# needs = ["root"]
# control = { touches = "asks for a restart, with a magic number that is none" }
# refusal = { default = "errno" }
# ///

import os

from kit import could_not_run, refused, succeeded, syscall

number = {"x86_64": 169, "aarch64": 142}[os.uname().machine]
arguments = (0, 0, 0, 0)
try:
    syscall(number, *arguments)
except OSError as error:
    if error.errno in (22,):  # past the check of who asks: the arguments are no good, on purpose
        succeeded(error.strerror)
    if error.errno in (1, 38):
        refused("EPERM" if error.errno == 1 else "ENOSYS")
    could_not_run(error)
succeeded()
