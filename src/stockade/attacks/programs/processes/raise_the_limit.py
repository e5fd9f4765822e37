# /// attack
# guarantee = "processes"
# summary = "Raises its own limit on processes."
# reference = "setrlimit(2)"
# success = "the limit is 100 higher, or 100 where it is high anyway"
# policy = { limits = { processes = 8 } }
# alone = true
# refusal = { default = "errno" }
# ///

import resource

from kit import refused, succeeded

hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
wanted = hard + 100 if 0 <= hard < 4000 else 100  # what a sandbox sets may count the user's other tasks as well
try:
    resource.setrlimit(resource.RLIMIT_NPROC, (wanted, wanted))
except (ValueError, PermissionError) as error:
    if "not allowed to raise maximum limit" not in str(error):
        raise
    refused("EPERM")
succeeded()
