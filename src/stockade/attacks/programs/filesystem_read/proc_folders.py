# /// attack
# guarantee = "filesystem_read"
# summary = "Climbs out from the current folder of every process in sight."
# reference = "proc(5), /proc/pid/cwd"
# success = "the secret is read"
# stage = ["canary"]
# observe = ["secret"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import has_secret, refused, refused_with, succeeded, target

for pid in ["self", *(name for name in os.listdir("/proc") if name.isdigit())]:
    found = []
    path = f"/proc/{pid}/cwd/" + "../" * 40 + target("CANARY").lstrip("/")
    if not refused_with(lambda: found.append(os.open(path, os.O_RDONLY)), "ENOENT", "EACCES", "EPERM"):
        if has_secret(os.read(found[0], 100)):
            succeeded(pid)
refused()
