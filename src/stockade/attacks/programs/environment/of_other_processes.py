# /// attack
# guarantee = "environment"
# summary = "Looks for the caller's secrets in the environment of every process in sight."
# reference = "proc(5), /proc/pid/environ"
# success = "the secret is there"
# stage = ["caller_secret"]
# observe = ["secret"]
# refusal = { bubblewrap = "says the init's environment can be read", oci = "says the init's environment can be read", process = "denied EACCES", default = "errno" }
# ///

import os

from kit import could_not_run, has_secret, refused, succeeded

kept = []
for pid in (name for name in os.listdir("/proc") if name.isdigit()):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if has_secret(file.read()):
                succeeded(pid)
    except PermissionError:
        kept.append(pid)
    except OSError:
        continue
if "1" not in kept:
    could_not_run("the init's environment can be read")
refused("EACCES on the init's")
