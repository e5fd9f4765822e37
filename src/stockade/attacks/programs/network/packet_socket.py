# /// attack
# guarantee = "network"
# summary = "Opens a packet socket, to see and forge what is on the wire."
# reference = "packet(7)"
# success = "it is open"
# control = { namespaces = ["user", "net"] }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket

from kit import attempt, succeeded

attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300), "EPERM", "EAFNOSUPPORT")
succeeded()
