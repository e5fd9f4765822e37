# /// attack
# guarantee = "process_view"
# summary = "Puts another process last in the queue for the disk: one of the host's, or its own init."
# reference = "ioprio_set(2)"
# success = "its class is idle"
# stage = ["victim"]
# confined = { ATTACK_VICTIM = "1" }
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, succeeded, syscall, target

number = {"x86_64": 251, "aarch64": 30}[os.uname().machine]
attempt(lambda: syscall(number, 1, int(target("VICTIM")), 3 << 13), "ESRCH", "EPERM")
succeeded()
