# /// attack
# guarantee = "filesystem_write"
# summary = "Makes a file in the system's folders."
# reference = "hier(7)"
# success = "one can be made (unconfined, in a folder with an empty file system laid over it)"
# control = { namespaces = ["user", "mount"], cover = "/mnt" }
# confined = { ATTACK_FOLDERS = "/usr:/usr/bin:/usr/lib:/etc:/:/dev" }
# refusal = { process = "denied EACCES", default = "errno EROFS" }
# ///

import os

from kit import refused, refused_with, succeeded

for folder in os.environ.get("ATTACK_FOLDERS", "/mnt").split(":"):
    path = f"{folder}/{os.environ['ATTACK_MARKER']}"
    if not refused_with(lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)), "EROFS"):
        os.unlink(path)
        succeeded(folder)
refused("EROFS")
