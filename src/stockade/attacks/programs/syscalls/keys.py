# /// attack
# guarantee = "syscalls"
# summary = "Uses the kernel's key store."
# reference = "keyctl(2)"
# success = "a key is stored"
# needs = ["seccomp", "keyrings"]
# refusal = { default = "errno" }
# ///

from kit import attempt, succeeded, syscall

attempt(lambda: syscall("keyctl", 1, 0, 0, 0, 0), "EPERM", "ENOSYS")
attempt(lambda: syscall("add_key", b"user", b"attack", b"x", 1, -3), "EPERM", "ENOSYS")
succeeded()
