# /// attack
# guarantee = "privileges"
# summary = "Makes a file system by the newer calls, which a filter that knows mount(2) alone lets pass."
# reference = "fsopen(2)"
# success = "a file system context is open"
# control = { namespaces = ["user", "mount"] }
# refusal = { default = "errno" }
# ///

from kit import attempt, succeeded, syscall

attempt(lambda: syscall(430, b"tmpfs", 0), "EPERM", "ENOSYS")
succeeded()
