# /// attack
# guarantee = "disk"
# summary = "Mounts a file system of its own, with a size of its own, in a new user namespace."
# reference = "user_namespaces(7), tmpfs(5)"
# success = "four times the limit is written"
# control = { namespaces = ["user", "mount"] }
# policy = { limits = { disk = "8MiB" } }
# refusal = { default = "errno" }
# ///

import os

from kit import CLONE_NEWNS, attempt, mount, new_user_namespace, succeeded

new_user_namespace(CLONE_NEWNS)
attempt(lambda: mount("tmpfs", "/tmp", "tmpfs", 0, "size=64m"), "EPERM")
# EOVERFLOW: nobody is mapped into the new namespace, since /proc is read-only, so nobody can own a file there
fd = attempt(lambda: os.open("/tmp/file", os.O_CREAT | os.O_WRONLY), "EOVERFLOW")
for _ in range(32):
    os.write(fd, b"x" * (1 << 20))
succeeded()
