# /// attack
# guarantee = "privileges"
# summary = "Gives itself capabilities, one after the other."
# reference = "capabilities(7), capset(2)"
# success = "it has one"
# control = { namespaces = ["user", "net"] }
# admitted = { gvisor = "gVisor's own" }
# refusal = { default = "errno" }
# ///

import ctypes

from kit import refused, refused_with, succeeded, syscall

header = (ctypes.c_uint32 * 2)(0x20080522, 0)
for number in range(41):
    words = [0] * 6
    words[3 * (number // 32)] = words[3 * (number // 32) + 1] = 1 << (number % 32)
    if not refused_with(lambda: syscall("capset", header, (ctypes.c_uint32 * 6)(*words)), "EPERM"):
        succeeded(number)
refused("EPERM, 41 times")
