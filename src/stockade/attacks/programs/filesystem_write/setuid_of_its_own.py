# /// attack
# guarantee = "filesystem_write"
# summary = "Leaves a set-user-id program of its own in a folder that it shares with the host, to lend its user's rights to others."
# reference = "chmod(2), S_ISUID"
# success = "there is one"
# stage = ["shared"]
# observe = ["setuid_left"]
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, refused_with, succeeded, target

path = target("SHARED") + "/program"
if refused_with(lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755)), "EPERM"):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o755))
attempt(lambda: os.chmod(path, 0o4755), "EPERM")
succeeded()
