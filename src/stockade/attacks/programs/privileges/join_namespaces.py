# /// attack
# guarantee = "privileges"
# summary = "Enters the namespaces of another process: the host's, or its own init's."
# reference = "setns(2)"
# success = "one of them is entered"
# stage = ["victim"]
# needs = ["root"]
# confined = { ATTACK_VICTIM = "1" }
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, check, could_not_run, libc, refused, refused_with, succeeded, syscall, target

pid = int(target("VICTIM"))
for name in ("net", "uts", "ipc", "mnt", "pid", "cgroup", "user"):
    found = []
    if not refused_with(lambda: found.append(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)), "EACCES", "EPERM"):
        attempt(lambda: check(libc().setns(found[0], 0)), "EPERM")
        succeeded(name)
pidfd = attempt(lambda: syscall("pidfd_open", pid, 0), "ESRCH")
if not refused_with(lambda: syscall("setns", pidfd, 0x20000), "EPERM"):
    could_not_run("setns by pidfd")
refused("EACCES on all, EPERM by pidfd")
