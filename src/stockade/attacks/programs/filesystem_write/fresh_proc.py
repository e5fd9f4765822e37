# /// attack
# guarantee = "filesystem_write"
# summary = "Mounts a /proc of its own, writable, in new user, PID and mount namespaces."
# reference = "Linux 4.2, commit 7236c85e1be5: a new /proc may not show more than the one there"
# success = "a writable /proc is there"
# control = { namespaces = ["user", "mount"] }
# refusal = { default = "errno" }
# ///

import os

from kit import CLONE_NEWNS, CLONE_NEWPID, attempt, mount, new_user_namespace, refused, refused_with, succeeded

os.mkdir("p")
new_user_namespace(CLONE_NEWNS | CLONE_NEWPID)
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
attempt(lambda: mount("proc", "p", "proc", 0), "EPERM")
if refused_with(lambda: os.close(os.open("p/self/oom_score_adj", os.O_WRONLY)), "EROFS"):
    refused("EROFS")
succeeded()
