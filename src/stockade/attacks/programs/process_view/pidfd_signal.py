# /// attack
# guarantee = "process_view"
# summary = "Signals a process of the host through a descriptor of it."
# reference = "pidfd_send_signal(2)"
# success = "it is dead"
# stage = ["victim"]
# observe = ["killed"]
# refusal = { default = "errno" }
# ///

import time

from kit import attempt, succeeded, syscall, target

pidfd = attempt(lambda: syscall("pidfd_open", int(target("VICTIM")), 0), "ESRCH", "EPERM")
attempt(lambda: syscall(424, pidfd, 9, 0, 0), "EPERM", "ESRCH")
time.sleep(0.2)
succeeded()
