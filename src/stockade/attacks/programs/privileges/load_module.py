# /// attack
# guarantee = "privileges"
# summary = "Loads a module into the kernel (from no file)."
# reference = "finit_module(2)"
# success = "the kernel goes on to look at what it was given"
# needs = ["root", "modules"]
# control = { touches = "asks for a module, from no file" }
# refusal = { default = "errno" }
# ///

import os

from kit import could_not_run, refused, succeeded, syscall

number = {"x86_64": 313, "aarch64": 273}[os.uname().machine]
arguments = (-1, b"", 0)
try:
    syscall(number, *arguments)
except OSError as error:
    if error.errno in (9, 8, 22):  # past the check of who asks: the arguments are no good, on purpose
        succeeded(error.strerror)
    if error.errno in (1, 38):
        refused("EPERM" if error.errno == 1 else "ENOSYS")
    could_not_run(error)
succeeded()
