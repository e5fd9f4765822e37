# /// attack
# guarantee = "privileges"
# summary = "Becomes root of a new user namespace, where every capability is its own."
# reference = "user_namespaces(7)"
# success = "it is uid 0 there and can mount"
# control = { namespaces = ["user", "mount"] }
# refusal = { default = "errno" }
# ///

import os

from kit import CLONE_NEWNS, attempt, mount, new_user_namespace, refused, succeeded

mapped = new_user_namespace(CLONE_NEWNS)
if mapped and os.getuid() == 0:
    attempt(lambda: mount("tmpfs", "/tmp", "tmpfs", 0, "size=64k"), "EPERM")
    succeeded()
try:
    mount("tmpfs", "/tmp", "tmpfs", 0, "size=64k")
except OSError:
    refused("EPERM")
succeeded("nobody, but able to mount")
