# /// attack
# guarantee = "syscalls"
# summary = "Sets a resource limit of another process, by number, through the raw call."
# reference = "prlimit(2)"
# success = "the limit is set"
# stage = ["victim"]
# needs = ["seccomp"]
# confined = { ATTACK_VICTIM = "1" }
# admitted = { gvisor = "the policy's filter does not apply" }
# refusal = { default = "errno" }
# ///

import resource

from kit import attempt, succeeded, target

attempt(lambda: resource.prlimit(int(target("VICTIM")), resource.RLIMIT_CPU, (3600, 3600)), "EPERM")
succeeded()
