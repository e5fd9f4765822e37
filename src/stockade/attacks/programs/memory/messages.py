# /// attack
# guarantee = "memory"
# summary = "Fills System V message queues that nobody reads."
# reference = "msgget(2), msgsnd(2)"
# success = "twice the limit lies in messages"
# needs = ["cgroup-memory"]
# policy = { limits = { memory = "24MiB" } }
# refusal = { process = "errno EPERM", default = "limit memory" }
# ///

import ctypes

from kit import attempt, check, libc, refused_with, succeeded

BYTES, IPC_NOWAIT, IPC_RMID = 8184, 0o4000, 0
c = libc()
message = ctypes.create_string_buffer(BYTES + 8)
message[0] = 1
queues, held = [], 0
try:
    while held < 48 << 20:
        queue = attempt(lambda: check(c.msgget(0, 0o600)), "EPERM")
        queues.append(queue)
        while not refused_with(lambda: check(c.msgsnd(queue, message, ctypes.c_size_t(BYTES), IPC_NOWAIT)), "EAGAIN"):
            held += BYTES
finally:
    for each in queues:
        c.msgctl(each, IPC_RMID, None)
succeeded(held)
