# /// attack
# guarantee = "network"
# summary = "Has a name change between the look-up that is checked and the connection."
# reference = "DNS rebinding; time of check to time of use"
# success = "the private address gets a request"
# stage = ["internet"]
# observe = ["private"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.rebound.example.org:80"] } }
# refusal = { default = "errno only the address that was checked" }
# ///

import socket

from kit import get, has_proxy, refused, succeeded, target

name = f"{target('MARKER')[::-1]}.rebound.example.org"
if not has_proxy():
    socket.getaddrinfo(name, 80)  # the check of a careless proxy
answer = get(name, "/")
if b"10.0.0.5" in answer:
    succeeded()
refused("only the address that was checked")
