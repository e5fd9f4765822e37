# /// attack
# guarantee = "network"
# summary = "Asks the cloud's metadata service by the mapped form of its address, which filters of addresses forget."
# reference = "RFC 4291, section 2.5.5.2"
# success = "the service (one of the test's own, in a network of its own) answers"
# needs = ["ipv6"]
# control = { namespaces = ["user", "net"], address = "169.254.169.254" }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket

from kit import refused, refused_with, succeeded

for address in ("::ffff:169.254.169.254", "::ffff:a9fe:a9fe"):
    connection = socket.socket(socket.AF_INET6)
    connection.settimeout(2)
    if not refused_with(lambda: connection.connect((address, 80)), "ENETUNREACH"):
        if connection.recv(10) == b"heard":
            succeeded(address)
refused("ENETUNREACH")
