# /// attack
# guarantee = "memory"
# summary = "Keeps data in a POSIX message queue, which is memory of the kernel's."
# reference = "mq_overview(7), RLIMIT_MSGQUEUE"
# success = "80 KiB lie in it"
# refusal = { default = "errno" }
# ///

import ctypes
import os

from kit import attempt, check, libc, succeeded, target

MESSAGES, BYTES = 10, 8192
c = libc()
name = f"/{target('MARKER')}".encode()
attributes = (ctypes.c_long * 8)(0, MESSAGES, BYTES)
flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
# EMFILE: the limit; EPERM: a filter, where the queue would be the host's
queue = attempt(lambda: check(c.mq_open(name, flags, 0o600, attributes)), "EMFILE", "EPERM")
c.mq_unlink(name)
for _ in range(MESSAGES):
    attempt(lambda: check(c.mq_send(queue, bytes(BYTES), ctypes.c_size_t(BYTES), 0)))
succeeded()
