# /// attack
# guarantee = "cpu_time"
# summary = "Raises its own limit on CPU time back to what it would be without a sandbox."
# reference = "setrlimit(2): the hard limit can only be raised with CAP_SYS_RESOURCE"
# success = "the limit is an hour"
# policy = { limits = { cpu_time = 2 } }
# admitted = { gvisor = "no RLIMIT_CPU" }
# refusal = { default = "errno" }
# ///

import resource

from kit import refused, succeeded

try:
    resource.setrlimit(resource.RLIMIT_CPU, (3600, 3600))
except (ValueError, PermissionError) as error:
    if "not allowed to raise maximum limit" not in str(error):
        raise
    refused("EPERM")
succeeded()
