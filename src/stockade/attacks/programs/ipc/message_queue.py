# /// attack
# guarantee = "ipc"
# summary = "Opens a System V message queue of the host."
# reference = "msgget(2)"
# success = "it is open"
# stage = ["segment"]
# refusal = { default = "errno" }
# ///

from kit import attempt, check, libc, succeeded, target

attempt(lambda: check(libc().msgget(int(target("IPC_KEY")), 0o600)), "ENOENT", "ENOSYS", "EPERM")
succeeded()
