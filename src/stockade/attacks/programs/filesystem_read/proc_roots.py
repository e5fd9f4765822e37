# /// attack
# guarantee = "filesystem_read"
# summary = "Opens the file below the root of every process in sight: /proc/self/root, /proc/1/root and the rest."
# reference = "proc(5), /proc/pid/root"
# success = "the secret is read"
# stage = ["canary"]
# observe = ["secret"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import could_not_run, has_secret, refused, refused_with, succeeded, target

pids = ["self", "thread-self", *(name for name in os.listdir("/proc") if name.isdigit())]
for pid in pids:
    found = []
    path = f"/proc/{pid}/root{target('CANARY')}"
    if not refused_with(lambda: found.append(os.open(path, os.O_RDONLY)), "ENOENT", "EACCES", "EPERM"):
        if has_secret(os.read(found[0], 100)):
            succeeded(pid)
if "1" not in pids:
    could_not_run("no init in sight")
refused(f"{len(pids)} processes")
