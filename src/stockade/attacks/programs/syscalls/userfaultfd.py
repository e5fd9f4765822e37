# /// attack
# guarantee = "syscalls"
# summary = "Handles its own page faults, with which races in the kernel are held open."
# reference = "userfaultfd(2), UFFD_USER_MODE_ONLY"
# success = "the descriptor is there"
# needs = ["seccomp", "x86_64"]
# refusal = { default = "errno" }
# ///

from kit import attempt, succeeded, syscall

attempt(lambda: syscall(323, 1), "EPERM", "ENOSYS")
succeeded()
