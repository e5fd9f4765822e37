# /// attack
# guarantee = "filesystem_write"
# summary = "Makes a file in the system's folders."
# reference = "hier(7)"
# success = "one can be made"
# needs = ["root"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import refused, refused_with, succeeded

name = os.environ["ATTACK_MARKER"]
for folder in ("/usr", "/usr/bin", "/usr/lib", "/etc", "/", "/dev"):
    path = f"{folder}/{name}"
    if not refused_with(lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)), "EROFS"):
        os.unlink(path)
        succeeded(folder)
refused("EROFS")
