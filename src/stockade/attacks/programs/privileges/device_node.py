# /// attack
# guarantee = "privileges"
# summary = "Makes a device node of the disk."
# reference = "mknod(2)"
# success = "the node is there"
# stage = ["device"]
# needs = ["root"]
# admitted = { gvisor = "gVisor's own" }
# refusal = { default = "errno" }
# ///

import os
import stat

from kit import attempt, succeeded, target

major, minor = map(int, target("DEVICE").split(":"))
attempt(lambda: os.mknod("disk", 0o666 | stat.S_IFBLK, os.makedev(major, minor)), "EPERM")
os.unlink("disk")
succeeded()
