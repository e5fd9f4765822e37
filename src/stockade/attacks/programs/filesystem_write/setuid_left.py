# /// attack
# guarantee = "filesystem_write"
# summary = "Leaves a set-user-id program of root's in a folder that it shares with the host, for somebody there to run."
# reference = "chmod(2), S_ISUID; mount(2), MS_NOSUID holds inside only"
# success = "there is one"
# stage = ["shared"]
# observe = ["setuid_root"]
# needs = ["root"]
# refusal = { default = "errno" }
# ///

import os

from kit import refused, succeeded, target

path = target("SHARED") + "/program"
with open(path, "w") as file:
    file.write("#!/bin/sh\nid\n")
try:
    os.chown(path, 0, 0)
except OSError:
    pass
try:
    os.chmod(path, 0o4755)
except PermissionError:
    pass  # then it is not even that
status = os.stat(path)
if os.getuid() == 0 and status.st_uid == 0 and status.st_mode & 0o4000:
    succeeded()
refused("EPERM")
