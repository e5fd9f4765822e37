# /// attack
# guarantee = "network"
# summary = "Receives more bytes than the policy allows."
# reference = "network.received"
# success = "more bytes arrive"
# stage = ["internet"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"], received = 1000000 } }
# refusal = { default = "proxy bytes of network.received" }
# ///

from kit import get, refused, succeeded

size = sum(len(get("example.org", "/bytes?count=400000")) for _ in range(3))
if size > 1000000:
    succeeded(size)
refused(size)
