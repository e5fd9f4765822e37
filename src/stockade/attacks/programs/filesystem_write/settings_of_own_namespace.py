# /// attack
# guarantee = "filesystem_write"
# summary = "Writes kernel settings as root of a new user namespace that owns a network."
# reference = "user_namespaces(7); /proc must be read-only for those that a namespace's root may write"
# success = "a setting of the network has been written"
# control = { namespaces = ["user", "net"] }
# confined = { ATTACK_NESTED = "1" }
# refusal = { default = "errno" }
# ///

import os

from kit import CLONE_NEWNET, attempt, new_user_namespace, succeeded

if "ATTACK_NESTED" in os.environ:
    new_user_namespace(CLONE_NEWNET)
fd = attempt(lambda: os.open("/proc/sys/net/ipv4/ip_forward", os.O_WRONLY), "EROFS", "EACCES")
os.write(fd, b"1")
succeeded()
