# /// attack
# guarantee = "memory"
# summary = "Makes sets of System V semaphores, which belong to no process."
# reference = "semget(2)"
# success = "twice the limit lies in semaphores"
# needs = ["cgroup-memory"]
# policy = { limits = { memory = "24MiB" } }
# refusal = { process = "errno EPERM", default = "limit memory" }
# ///

from kit import attempt, check, libc, succeeded

EACH, IPC_RMID = 64, 0  # bytes of one semaphore
c = libc()
sets = []
try:
    for _ in range((48 << 20) // (32000 * EACH)):
        sets.append(attempt(lambda: check(c.semget(0, 32000, 0o600)), "EPERM"))
finally:
    for each in sets:
        c.semctl(each, 0, IPC_RMID)
succeeded(len(sets))
