# /// attack
# guarantee = "process_view"
# summary = "Takes a descriptor out of another process: one of the host's, or its own init with its control socket."
# reference = "pidfd_getfd(2)"
# success = "the descriptor is ours"
# stage = ["victim"]
# confined = { ATTACK_VICTIM = "1" }
# refusal = { default = "errno" }
# ///

from kit import attempt, refused, refused_with, succeeded, syscall, target

pidfd = attempt(lambda: syscall("pidfd_open", int(target("VICTIM")), 0), "ESRCH")
for number in range(3):
    if not refused_with(lambda: syscall("pidfd_getfd", pidfd, number, 0), "EPERM"):
        succeeded(number)
refused("EPERM")
