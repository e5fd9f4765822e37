# /// attack
# guarantee = "processes"
# summary = "Forks in a new user namespace, in which another user's count might begin."
# reference = "Linux 5.14, commit 21d1c5e386bc: counts are kept per user namespace and in all above it"
# success = "64 processes stand at one time"
# policy = { limits = { processes = 8 } }
# alone = true
# refusal = { default = "errno" }
# ///

import os
import time

from kit import could_not_run, new_user_namespace, refused, refused_with, succeeded

new_user_namespace()
children = []


def more():
    child = os.fork()
    if child == 0:
        time.sleep(5)
        os._exit(0)
    children.append(child)


while len(children) < 64:
    if refused_with(more, "EAGAIN"):
        if len(children) != 7:
            could_not_run(f"refused at {len(children)} children")
        refused(f"EAGAIN after {len(children)} children")
for child in children:
    os.kill(child, 9)
succeeded()
