# /// attack
# guarantee = "filesystem_write"
# summary = "Changes the times of a device node that is the host's own."
# reference = "utimensat(2): who may write may set the time to now; writing to a device needs no writable mount"
# success = "the host's node has changed"
# stage = ["device_times"]
# observe = ["changed"]
# admitted = { bubblewrap = "to the current time", oci = "to the current time", docker = "to the current time", podman = "to the current time", gvisor = "gVisor's own" }
# control = { touches = "sets the times of /dev/zero to now" }
# refusal = { process = "denied EPERM", default = "errno" }
# ///

import os

from kit import attempt, succeeded

attempt(lambda: os.utime("/dev/zero"), "EROFS")
succeeded()
