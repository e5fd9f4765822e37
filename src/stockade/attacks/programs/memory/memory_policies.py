# /// attack
# guarantee = "memory"
# summary = "Sets a NUMA policy for each of many mappings: nothing counts the memory of a policy."
# reference = "mbind(2), mm/mempolicy.c: policy_cache"
# success = "a hundred mappings have a policy"
# needs = ["numa"]
# admitted = { gvisor = "gVisor's own memory counts" }
# refusal = { default = "errno" }
# ///

import ctypes
import os

from kit import attempt, check, libc, succeeded, syscall

NUMBER = {"x86_64": 237, "aarch64": 235}[os.uname().machine]
PAGE, PREFERRED, NODE = 4096, 1, 1
c = libc()
c.mmap.restype = ctypes.c_void_p
begin = c.mmap(None, ctypes.c_size_t(200 * PAGE), 3, 0x22, -1, 0)
nodes = ctypes.c_ulong(NODE)
for at in range(0, 200 * PAGE, 2 * PAGE):
    place = ctypes.c_void_p(begin + at)
    attempt(lambda place=place: check(syscall(NUMBER, place, PAGE, PREFERRED, ctypes.byref(nodes), 64, 0)), "EPERM")
succeeded()
