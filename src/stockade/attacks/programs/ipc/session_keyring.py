# /// attack
# guarantee = "ipc"
# summary = "Searches the session keyring that it was born with for a key of the caller's."
# reference = "keyrings(7)"
# success = "the key is read"
# stage = ["key"]
# needs = ["keyrings"]
# observe = ["secret"]
# refusal = { default = "errno" }
# ///

import ctypes

from kit import attempt, has_secret, succeeded, syscall, target

SEARCH, READ, SESSION = 10, 11, -3
name = target("MARKER").encode()
serial = attempt(lambda: syscall("keyctl", SEARCH, SESSION, b"user", name, 0), "ENOKEY", "ENOSYS", "EPERM")
buffer = ctypes.create_string_buffer(100)
attempt(lambda: syscall("keyctl", READ, serial, buffer, 100), "EACCES")
if has_secret(buffer.raw):
    succeeded()
