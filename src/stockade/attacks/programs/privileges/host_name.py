# /// attack
# guarantee = "privileges"
# summary = "Renames the machine."
# reference = "sethostname(2)"
# success = "it is renamed"
# control = { namespaces = ["user", "uts"] }
# refusal = { default = "errno" }
# ///

import socket

from kit import attempt, succeeded

attempt(lambda: socket.sethostname("attacked"), "EPERM")
succeeded()
