# /// attack
# guarantee = "process_view"
# summary = "Attaches to a process as a debugger does: one of the host's, or its own init."
# reference = "ptrace(2)"
# success = "it is attached"
# stage = ["victim"]
# confined = { ATTACK_VICTIM = "1" }
# refusal = { default = "errno" }
# ///

from kit import attempt, check, libc, succeeded, target

PTRACE_SEIZE = 0x4206
attempt(lambda: check(libc().ptrace(PTRACE_SEIZE, int(target("VICTIM")), None, None)), "EPERM")
succeeded()
