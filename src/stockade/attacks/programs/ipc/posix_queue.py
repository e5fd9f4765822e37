# /// attack
# guarantee = "ipc"
# summary = "Opens a POSIX message queue of the host."
# reference = "mq_overview(7)"
# success = "it is open"
# stage = ["queue"]
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, check, libc, succeeded, target

attempt(lambda: check(libc().mq_open(f"/{target('MARKER')}".encode(), os.O_RDWR)), "ENOENT", "ENOSYS", "EPERM")
succeeded()
