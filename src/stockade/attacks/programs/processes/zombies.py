# /// attack
# guarantee = "processes"
# summary = "Leaves children dead and unreaped: each keeps its place."
# reference = "wait(2)"
# success = "64 zombies stand at one time"
# policy = { limits = { processes = 8 } }
# alone = true
# admitted = { gvisor = "more threads of the host" }
# refusal = { default = "errno" }
# ///

import os

from kit import could_not_run, refused, refused_with, succeeded


def more():
    if os.fork() == 0:
        os._exit(0)


for count in range(64):
    if refused_with(more, "EAGAIN"):
        if count != 7:
            could_not_run(f"refused at {count}")
        refused(f"EAGAIN after {count} zombies")
succeeded()
