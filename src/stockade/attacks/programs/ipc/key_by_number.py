# /// attack
# guarantee = "ipc"
# summary = "Reads a key of the caller's by its serial number."
# reference = "keyctl_read(3)"
# success = "the key is read"
# stage = ["key"]
# needs = ["keyrings"]
# observe = ["secret"]
# refusal = { default = "errno" }
# ///

import ctypes

from kit import attempt, has_secret, succeeded, syscall, target

buffer = ctypes.create_string_buffer(100)
attempt(lambda: syscall("keyctl", 11, int(target("KEY")), buffer, 100), "EACCES", "ENOKEY", "ENOSYS", "EPERM")
if has_secret(buffer.raw):
    succeeded()
