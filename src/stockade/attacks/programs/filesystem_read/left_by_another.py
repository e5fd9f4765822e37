# /// attack
# guarantee = "filesystem_read"
# summary = "Looks for what an earlier run has left in /tmp, in /dev/shm and in its workspace."
# reference = "CWE-377"
# success = "the earlier run's secret is read"
# stage = ["predecessor"]
# observe = ["secret"]
# refusal = { default = "errno ENOENT" }
# ///

import os

from kit import has_secret, refused, succeeded, target

for folder in ("/tmp", "/dev/shm", os.environ.get("TMPDIR", "/tmp"), os.getcwd()):
    try:
        with open(f"{folder}/{target('MARKER')}", "rb") as file:
            if has_secret(file.read()):
                succeeded(folder)
    except (FileNotFoundError, PermissionError):
        continue
refused("ENOENT everywhere")
