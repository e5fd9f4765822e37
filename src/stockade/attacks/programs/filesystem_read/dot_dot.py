# /// attack
# guarantee = "filesystem_read"
# summary = "Climbs out by '..', more often than there are folders."
# reference = "path_resolution(7)"
# success = "the secret is read"
# stage = ["canary"]
# observe = ["secret"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import attempt, has_secret, succeeded, target

fd = attempt(lambda: os.open("../" * 40 + target("CANARY").lstrip("/"), os.O_RDONLY), "ENOENT")
if has_secret(os.read(fd, 100)):
    succeeded()
