# /// attack
# guarantee = "file_size"
# summary = "Makes a file long without writing to it: by truncation, allocation and a write far out."
# reference = "truncate(2), fallocate(2), pwrite(2)"
# success = "one of the three works"
# policy = { limits = { file_size = "1MiB" } }
# refusal = { default = "errno" }
# ///

import os
import tempfile

from kit import refused, refused_with, succeeded

with tempfile.TemporaryFile() as file:
    fd = file.fileno()
    ways = [
        lambda: os.truncate(fd, 4 << 20),
        lambda: os.posix_fallocate(fd, 0, 4 << 20),
        lambda: os.pwrite(fd, b"x", 4 << 20),
    ]
    if all(refused_with(way, "EFBIG") for way in ways):
        refused("EFBIG three times")
succeeded()
