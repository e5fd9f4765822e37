# /// attack
# guarantee = "filesystem_write"
# summary = "Overwrites a file of the host that anyone may write."
# reference = "path_resolution(7)"
# success = "the canary has changed"
# stage = ["canary"]
# observe = ["changed"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import attempt, succeeded, target

fd = attempt(lambda: os.open(target("CANARY"), os.O_WRONLY), "ENOENT")
os.write(fd, b"changed")
succeeded()
