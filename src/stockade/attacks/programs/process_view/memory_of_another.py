# /// attack
# guarantee = "process_view"
# summary = "Reads the memory of another process: one of the host's, or its own init."
# reference = "process_vm_readv(2), proc(5), /proc/pid/mem"
# success = "its environment's secret is read"
# stage = ["victim"]
# observe = ["secret"]
# confined = { ATTACK_VICTIM = "1" }
# refusal = { bubblewrap = "says nothing found in its memory", oci = "says nothing found in its memory", default = "errno" }
# ///

import ctypes
import os

from kit import could_not_run, has_secret, refused, refused_with, succeeded, syscall, target

pid = int(target("VICTIM"))
found = []
if not refused_with(lambda: found.append(os.open(f"/proc/{pid}/mem", os.O_RDONLY)), "EACCES", "EPERM"):
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            if "[stack]" in line:
                begin, end = (int(word, 16) for word in line.split()[0].split("-"))
                if has_secret(os.pread(found[0], end - begin, begin)):
                    succeeded()
    could_not_run("nothing found in its memory")
buffer = ctypes.create_string_buffer(64)
local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
remote = (ctypes.c_void_p * 2)(0x400000, 64)
if not refused_with(lambda: syscall("process_vm_readv", pid, local, 1, remote, 1, 0), "EPERM"):
    succeeded("process_vm_readv")
if not refused_with(lambda: os.close(os.open(f"/proc/{pid}/maps", os.O_RDONLY)), "EACCES"):
    succeeded("maps")
refused("EACCES, EPERM, EACCES")
