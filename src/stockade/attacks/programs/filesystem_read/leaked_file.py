# /// attack
# guarantee = "filesystem_read"
# summary = "Reads every descriptor that it was born with, besides its own four."
# reference = "fcntl(2), FD_CLOEXEC"
# success = "the secret is read from a leaked descriptor"
# stage = ["leak"]
# observe = ["secret"]
# refusal = { default = "errno" }
# ///

import os

from kit import could_not_run, has_secret, refused, succeeded

found = []
for number in range(3, 4096):
    try:
        os.fstat(number)
        found.append(number)
        if has_secret(os.pread(number, 100, 0)):
            succeeded(number)
    except OSError:
        continue
if found != [3]:
    could_not_run(f"open: {found}")
refused("nothing but the result channel is open")
