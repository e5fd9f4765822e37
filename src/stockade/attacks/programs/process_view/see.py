# /// attack
# guarantee = "process_view"
# summary = "Looks for a process of the host in /proc."
# reference = "proc(5)"
# success = "its command line is read"
# stage = ["victim"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import could_not_run, refused, succeeded, target

seen = [name for name in os.listdir("/proc") if name.isdigit()]
for pid in seen:
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            if target("MARKER") + "-victim" in file.read():
                succeeded(pid)
    except OSError:
        continue
if sorted(map(int, seen)) != [1, os.getpid()]:
    could_not_run(f"in sight: {seen}")
refused("its init and itself are all there is")
