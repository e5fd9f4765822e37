# /// attack
# guarantee = "open_files"
# summary = "Raises its own limit on open files."
# reference = "setrlimit(2)"
# success = "the limit is 300"
# policy = { limits = { open_files = 32 } }
# refusal = { default = "errno" }
# ///

import resource

from kit import refused, succeeded

try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
except (ValueError, PermissionError) as error:
    if "not allowed to raise maximum limit" not in str(error):
        raise
    refused("EPERM")
succeeded()
