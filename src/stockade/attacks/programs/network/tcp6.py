# /// attack
# guarantee = "network"
# summary = "Connects to a TCP service on the host's IPv6 loopback, also by the mapped address."
# reference = "ipv6(7)"
# success = "the service answers"
# stage = ["tcp6"]
# observe = ["heard"]
# needs = ["ipv6"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket

from kit import refused, refused_with, succeeded, target

for address in ("::1", "::ffff:127.0.0.1"):
    connection = socket.socket(socket.AF_INET6)
    if not refused_with(
        lambda: connection.connect((address, int(target("PORT")))), "ECONNREFUSED", "EADDRNOTAVAIL", "ENETUNREACH"
    ):
        if connection.recv(10) == b"heard":
            succeeded(address)
refused()
