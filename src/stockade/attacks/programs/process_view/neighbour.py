# /// attack
# guarantee = "process_view"
# summary = "Looks for another run at the same time: its process, its sockets, its files."
# reference = "namespaces(7)"
# success = "one of them is found"
# stage = ["neighbour"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os
import socket

from kit import could_not_run, refused, refused_with, succeeded, target

marker = target("MARKER")
if not refused_with(lambda: socket.socket(socket.AF_UNIX).connect("\0" + marker), "ECONNREFUSED"):
    succeeded("its socket")
for path in (f"/tmp/{marker}", f"/dev/shm/{marker}"):
    if os.path.exists(path):
        succeeded(path)
seen = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
if seen != [1, os.getpid()]:
    could_not_run(f"in sight: {seen}")
refused("nothing of it")
