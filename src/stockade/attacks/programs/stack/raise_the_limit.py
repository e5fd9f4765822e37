# /// attack
# guarantee = "stack"
# summary = "Raises its own limit on the stack."
# reference = "setrlimit(2)"
# success = "the limit is 4 MiB"
# policy = { limits = { stack = "1MiB" } }
# refusal = { default = "errno" }
# ///

import resource

from kit import refused, succeeded

try:
    resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, 4 << 20))
except (ValueError, PermissionError) as error:
    if "not allowed to raise maximum limit" not in str(error):
        raise
    refused("EPERM")
succeeded()
