# /// attack
# guarantee = "filesystem_read"
# summary = "Reads the kernel's memory and its log."
# reference = "proc(5), /proc/kcore; mem(4)"
# success = "one of them can be opened"
# needs = ["root"]
# control = { touches = "opens the kernel's memory and log for reading" }
# refusal = { default = "errno" }
# ///

import os

from kit import refused, refused_with, succeeded

for path in ("/proc/kcore", "/dev/mem", "/dev/kmsg", "/proc/kmsg"):
    if not refused_with(lambda: os.close(os.open(path, os.O_RDONLY)), "EACCES", "EPERM", "ENOENT"):
        succeeded(path)
refused()
