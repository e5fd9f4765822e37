# /// attack
# guarantee = "filesystem_write"
# summary = "Leaves a device node of the disk in a folder that it shares with the host, where devices count."
# reference = "mknod(2)"
# success = "there is one"
# stage = ["shared", "device"]
# observe = ["device_left"]
# needs = ["root"]
# refusal = { default = "errno" }
# ///

import os
import stat

from kit import attempt, succeeded, target

number = os.makedev(*map(int, target("DEVICE").split(":")))
attempt(lambda: os.mknod(target("SHARED") + "/disk", 0o666 | stat.S_IFBLK, number), "EPERM")
succeeded()
