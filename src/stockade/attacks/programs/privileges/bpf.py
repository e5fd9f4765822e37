# /// attack
# guarantee = "privileges"
# summary = "Loads a program into the kernel."
# reference = "bpf(2)"
# success = "a map of the kernel's is made"
# needs = ["root"]
# control = { touches = "makes a map in the kernel for a moment" }
# refusal = { default = "errno" }
# ///

import ctypes

from kit import attempt, succeeded, syscall

attributes = (ctypes.c_uint32 * 32)(2, 4, 4, 1)  # BPF_MAP_TYPE_ARRAY, key, value, entries
attempt(lambda: syscall("bpf", 0, attributes, 128), "EPERM")
succeeded()
