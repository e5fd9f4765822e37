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
for _ in range(200):
    try:
        with open(f"/proc/{process.pid}/comm") as comm, open(f"/proc/{process.pid}/status") as status:
            uids = next(line for line in status if line.startswith("Uid:")).split()
            if comm.read().strip() == "su":
                euid = int(uids[2])
                break
    except OSError:
        break
    time.sleep(0.005)
process.stdin.close()
if euid == 0:
    succeeded()
process.wait()
if euid not in {None, os.getuid()}:
    could_not_run(euid)
refused(f"it runs as {euid}")
