# /// attack
# guarantee = "processes"
# summary = "Raises its own limit on processes."
# reference = "setrlimit(2)"
# success = "the limit is 100 higher; unconfined, 100 where it is high anyway"
# policy = { limits = { processes = 8 } }
# alone = true
# confined = { ATTACK_CONFINED = "1" }
# admitted = { gvisor = "more threads of the host" }
# refusal = { default = "errno" }
# ///

import os
import resource

from kit import refused, succeeded

hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
# An ordinary user may lower one only, so unconfined that has to do. A sandbox without one has a group that counts.
wanted = hard + 100 if hard >= 0 and (hard < 4000 or "ATTACK_CONFINED" in os.environ) else 100
try:
    resource.setrlimit(resource.RLIMIT_NPROC, (wanted, wanted))
except (ValueError, PermissionError) as error:
    if "not allowed to raise maximum limit" not in str(error):
        raise
    refused("EPERM")
succeeded()
