# /// attack
# guarantee = "filesystem_write"
# summary = "Leaves a device node that nobody needs a capability for in a folder that it shares with the host."
# reference = "mknod(2); Linux commit a3c751a50fe6: 0:0 is a whiteout, which hides a file where the folder becomes a layer"
# success = "there is one"
# stage = ["shared"]
# observe = ["device_left"]
# refusal = { default = "errno" }
# ///

import os
import stat

from kit import attempt, succeeded, target

attempt(lambda: os.mknod(target("SHARED") + "/whiteout", 0o600 | stat.S_IFCHR, os.makedev(0, 0)), "EPERM")
succeeded()
