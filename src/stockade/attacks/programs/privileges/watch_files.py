# /// attack
# guarantee = "privileges"
# summary = "Watches, and may veto, every file access of the machine."
# reference = "fanotify_init(2), FAN_CLASS_CONTENT"
# success = "the kernel goes on to look at what it was given"
# needs = ["root"]
# control = { touches = "opens a watch for a moment, and marks nothing" }
# refusal = { default = "errno" }
# ///

import os

from kit import could_not_run, refused, succeeded, syscall

number = {"x86_64": 300, "aarch64": 262}[os.uname().machine]
arguments = (4, 0)
try:
    syscall(number, *arguments)
except OSError as error:
    if error.errno in (1, 38):
        refused("EPERM" if error.errno == 1 else "ENOSYS")
    could_not_run(error)
succeeded()
