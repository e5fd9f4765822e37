# /// attack
# guarantee = "network"
# summary = "Asks the cloud's metadata service, by its address and its decimal form."
# reference = "RFC 3927"
# success = "the service (here one of the test's own, in a network of its own) answers"
# control = { namespaces = ["user", "net"], address = "169.254.169.254" }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket

from kit import refused, refused_with, succeeded

for address in ("169.254.169.254", "2852039166"):
    connection = socket.socket()
    connection.settimeout(2)
    if not refused_with(lambda: connection.connect((address, 80)), "ENETUNREACH"):
        if connection.recv(10) == b"heard":
            succeeded(address)
refused("ENETUNREACH")
