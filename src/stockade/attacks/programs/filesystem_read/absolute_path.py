# /// attack
# guarantee = "filesystem_read"
# summary = "Opens a file of the host by its absolute path."
# reference = "path_resolution(7)"
# success = "the secret in it is read"
# stage = ["canary"]
# observe = ["secret"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import attempt, has_secret, succeeded, target

fd = attempt(lambda: os.open(target("CANARY"), os.O_RDONLY), "ENOENT")
if has_secret(os.read(fd, 100)):
    succeeded()
