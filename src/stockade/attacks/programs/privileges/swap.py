# /// attack
# guarantee = "privileges"
# summary = "Turns the swap of the host off (of no file)."
# reference = "swapoff(2)"
# success = "the kernel goes on to look at what it was given"
# needs = ["root"]
# control = { touches = "asks to end swapping to no file" }
# refusal = { default = "errno" }
# ///

import os

from kit import could_not_run, refused, succeeded, syscall

number = {"x86_64": 168, "aarch64": 225}[os.uname().machine]
arguments = (0,)
try:
    syscall(number, *arguments)
except OSError as error:
    if error.errno in (14, 22, 2):  # past the check of who asks: the arguments are no good, on purpose
        succeeded(error.strerror)
    if error.errno in (1, 38):
        refused("EPERM" if error.errno == 1 else "ENOSYS")
    could_not_run(error)
succeeded()
