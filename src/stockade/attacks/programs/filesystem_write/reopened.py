# /// attack
# guarantee = "filesystem_write"
# summary = "Reopens for writing, through /proc, what it could open for reading."
# reference = "proc(5), /proc/pid/fd"
# success = "the file has changed"
# stage = ["readonly"]
# observe = ["changed"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import attempt, succeeded, target

fd = os.open(target("READONLY") + "/file", os.O_RDONLY)
again = attempt(lambda: os.open(f"/proc/self/fd/{fd}", os.O_WRONLY), "EROFS")
os.write(again, b"changed")
succeeded()
