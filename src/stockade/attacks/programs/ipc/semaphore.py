# /// attack
# guarantee = "ipc"
# summary = "Opens a System V semaphore of the host, to hold up who waits for it."
# reference = "semget(2)"
# success = "it is open"
# stage = ["segment"]
# refusal = { default = "errno" }
# ///

from kit import attempt, check, libc, succeeded, target

attempt(lambda: check(libc().semget(int(target("IPC_KEY")), 1, 0o600)), "ENOENT", "ENOSYS", "EPERM")
succeeded()
