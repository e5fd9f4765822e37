# /// attack
# guarantee = "ipc"
# summary = "Opens POSIX shared memory of the host."
# reference = "shm_overview(7)"
# success = "the secret in it is read"
# stage = ["shared_file"]
# observe = ["secret"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import attempt, has_secret, succeeded, target

fd = attempt(lambda: os.open(f"/dev/shm/{target('MARKER')}", os.O_RDWR), "ENOENT")
if has_secret(os.read(fd, 100)):
    succeeded()
