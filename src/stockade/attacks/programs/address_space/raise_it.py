# /// attack
# guarantee = "address_space"
# summary = "Raises its own limit on address space, for itself or in the program it becomes."
# reference = "setrlimit(2), prlimit(2)"
# success = "there is no limit any more"
# policy = { limits = { address_space = "256MiB" } }
# refusal = { default = "errno" }
# ///

import resource

from kit import refused, succeeded

try:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
except (ValueError, PermissionError) as error:
    if "not allowed to raise maximum limit" not in str(error):
        raise
    refused("EPERM")
succeeded()
