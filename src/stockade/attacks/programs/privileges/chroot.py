# /// attack
# guarantee = "privileges"
# summary = "Changes its root away and climbs out of it."
# reference = "chroot(2)"
# success = "the root has changed"
# control = { namespaces = ["user", "mount"] }
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, succeeded

os.mkdir("r")
attempt(lambda: os.chroot("r"), "EPERM")
succeeded()
