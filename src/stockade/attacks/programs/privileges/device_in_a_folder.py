# /// attack
# guarantee = "privileges"
# summary = "Opens a device node that lies in a folder which it is shown."
# reference = "mount(2), MS_NODEV"
# success = "the device is open"
# stage = ["device_node"]
# needs = ["root"]
# admitted = { firejail = "device nodes", process = "device nodes", landlock = "device nodes", docker = "device nodes" }
# refusal = { default = "errno EACCES" }
# ///

import os

from kit import attempt, succeeded, target

attempt(lambda: os.close(os.open(target("READONLY") + "/zero", os.O_RDONLY)), "EACCES")
succeeded()
