# /// attack
# guarantee = "processes"
# summary = "Forks so that every child is orphaned and in a session of its own, out of its parent's sight."
# reference = "daemon(7)"
# success = "64 daemons stand at one time"
# policy = { limits = { processes = 8 } }
# alone = true
# refusal = { default = "errno" }
# ///

import os
import time

from kit import attempt, could_not_run, refused, succeeded

read, write = os.pipe()
for count in range(64):
    child = attempt(
        os.fork, "EAGAIN", then=lambda error: refused("EAGAIN") if count in {6, 7} else could_not_run(count)
    )
    if child == 0:
        os.setsid()
        try:
            orphan = os.fork()
        except BlockingIOError:
            os._exit(1)
        if orphan == 0:
            time.sleep(1.5)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        if count not in {6, 7}:
            could_not_run(f"refused at {count}")
        refused(f"EAGAIN in the child, at {count} daemons")
succeeded()
