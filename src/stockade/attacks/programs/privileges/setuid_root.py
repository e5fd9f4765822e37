# /// attack
# guarantee = "privileges"
# summary = "Runs the system's own set-user-id program."
# reference = "execve(2); mount(2), MS_NOSUID; prctl(2), PR_SET_NO_NEW_PRIVS"
# success = "it runs as root"
# needs = ["unprivileged"]
# refusal = { default = "errno" }
# ///

import os
import subprocess
import time

from kit import could_not_run, refused, succeeded

process = subprocess.Popen(["/usr/bin/su"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
euid = None


def of_process(name):
    with open(f"/proc/{process.pid}/{name}") as file:
        return file.read()


try:
    for _ in range(200):
        if of_process("comm").strip() == "su":
            break
        time.sleep(0.005)
    time.sleep(0.02)  # a program has its name before it has its rights
    euid = int(next(line for line in of_process("status").splitlines() if line.startswith("Uid:")).split()[2])
except OSError:
    pass
process.stdin.close()
if euid == 0:
    succeeded()
process.wait()
if euid not in {None, os.getuid()}:
    could_not_run(euid)
refused(f"it runs as {euid}")
