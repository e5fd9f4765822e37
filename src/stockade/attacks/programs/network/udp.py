# /// attack
# guarantee = "network"
# summary = "Sends a datagram to a service on the host's loopback."
# reference = "udp(7)"
# success = "the service answers"
# stage = ["udp"]
# observe = ["heard"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket

from kit import attempt, succeeded, target

connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
connection.settimeout(2)
connection.connect(("127.0.0.1", int(target("PORT"))))
connection.send(b"hello")
if attempt(lambda: connection.recv(10), "ECONNREFUSED") == b"heard":
    succeeded()
