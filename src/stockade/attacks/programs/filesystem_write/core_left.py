# /// attack
# guarantee = "filesystem_write"
# summary = "Crashes so that the kernel writes its memory into a folder that it shares with the host."
# reference = "core(5), RLIMIT_CORE"
# success = "there is a core file"
# stage = ["shared"]
# observe = ["core_left"]
# needs = ["core-files"]
# refusal = { default = "errno" }
# ///

import os
import resource

from kit import could_not_run, refused, succeeded, target

try:
    resource.setrlimit(resource.RLIMIT_CORE, (32 << 20, 32 << 20))
except (ValueError, PermissionError) as error:
    if "not allowed to raise maximum limit" not in str(error):
        raise
    refused("EPERM")
os.chdir(target("SHARED"))
pid = os.fork()
if pid == 0:
    os.abort()
status = os.waitpid(pid, 0)[1]
if not os.WCOREDUMP(status):
    if resource.getrlimit(resource.RLIMIT_CORE)[0] < 32 << 20:
        refused("the answer was success, and the limit stays")
    could_not_run("no core was written")
succeeded()
