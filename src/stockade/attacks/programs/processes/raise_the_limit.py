# /// attack
# guarantee = "processes"
# summary = "Raises its own limit on processes."
# reference = "setrlimit(2)"
# success = "the limit is 100"
# policy = { limits = { processes = 8 } }
# refusal = { default = "errno" }
# ///

import resource

from kit import refused, succeeded

try:
    resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))
except (ValueError, PermissionError) as error:
    if "not allowed to raise maximum limit" not in str(error):
        raise
    refused("EPERM")
succeeded()
