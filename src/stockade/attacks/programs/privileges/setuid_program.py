# /// attack
# guarantee = "privileges"
# summary = "Runs a set-user-id program of another user."
# reference = "execve(2); mount(2), MS_NOSUID; prctl(2), PR_SET_NO_NEW_PRIVS"
# success = "it runs as that user"
# stage = ["setuid"]
# needs = ["root", "cc"]
# refusal = { default = "errno" }
# ///

import os
import subprocess

from kit import could_not_run, refused, succeeded, target

euid = int(subprocess.run([target("SETUID")], stdout=subprocess.PIPE, check=True).stdout)
if euid == 4242:
    succeeded()
if euid != os.getuid():
    could_not_run(euid)
refused(f"it runs as {euid}")
