# /// attack
# guarantee = "network"
# summary = "Opens a raw socket."
# reference = "raw(7)"
# success = "it is open"
# control = { namespaces = ["user", "net"] }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket

from kit import attempt, succeeded

attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP), "EPERM")
succeeded()
