# /// attack
# guarantee = "process_view"
# summary = "Sets a resource limit of another process: one of the host's, or its own init."
# reference = "prlimit(2): the same user's processes need no privilege"
# success = "the limit is set"
# stage = ["victim"]
# confined = { ATTACK_VICTIM = "1" }
# admitted = { gvisor = "prlimit" }
# refusal = { default = "errno | admitted prlimit" }
# ///

import resource

from kit import attempt, succeeded, target

attempt(lambda: resource.prlimit(int(target("VICTIM")), resource.RLIMIT_NOFILE, (8, 8)), "EPERM")
succeeded()
