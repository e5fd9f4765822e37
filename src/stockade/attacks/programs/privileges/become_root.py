# /// attack
# guarantee = "privileges"
# summary = "Changes its user and groups to root's."
# reference = "setuid(2), setgroups(2)"
# success = "it can"
# control = { namespaces = ["user", "mount"] }
# refusal = { default = "errno" }
# ///

import os

from kit import refused, refused_with, succeeded

ways = [
    lambda: os.setuid(0),
    lambda: os.setgid(0),
    lambda: os.setresuid(0, 0, 0),
    lambda: os.setgroups([0]),
]
# EINVAL: no such user is mapped here at all
if all(refused_with(way, "EPERM", "EINVAL") for way in ways):
    refused("EPERM or EINVAL")
succeeded()
