# /// attack
# guarantee = "filesystem_write"
# summary = "Opens settings of the kernel for writing: the core pattern, the hot-plug helper, the network's."
# reference = "core(5), proc(5), /proc/sys"
# success = "the core pattern can be opened for writing"
# needs = ["root"]
# control = { touches = "opens settings of the kernel for writing, and writes nothing" }
# refusal = { default = "errno" }
# ///

import os

from kit import could_not_run, refused, refused_with, succeeded

NAMES = ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "vm/panic_on_oom", "net/ipv4/ip_forward")
found = 0
for name in NAMES:
    path = f"/proc/sys/{name}"
    if os.path.exists(path):
        found += 1
        if not refused_with(lambda: os.close(os.open(path, os.O_WRONLY)), "EROFS", "EACCES"):
            succeeded(name)
if found < 3:
    could_not_run("there are no settings")
refused()
