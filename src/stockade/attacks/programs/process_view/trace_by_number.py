# /// attack
# guarantee = "process_view"
# summary = "Attaches to a process of the host by its number there."
# reference = "ptrace(2)"
# success = "it is attached"
# stage = ["victim"]
# refusal = { default = "errno" }
# ///

from kit import attempt, check, libc, succeeded, target

PTRACE_ATTACH = 16
attempt(lambda: check(libc().ptrace(PTRACE_ATTACH, int(target("VICTIM")), None, None)), "ESRCH", "EPERM")
succeeded()
