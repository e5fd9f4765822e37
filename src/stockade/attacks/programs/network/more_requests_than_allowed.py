# /// attack
# guarantee = "network"
# summary = "Makes more requests than the policy allows."
# reference = "network.requests"
# success = "the server gets more"
# stage = ["internet"]
# observe = ["many"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"], requests = 50 } }
# refusal = { default = "proxy the most that network.requests allows" }
# ///

from kit import get, refused, succeeded

served = sum(b" 200 " in get("example.org", "/bytes?count=1")[:15] for _ in range(55))
if served > 50:
    succeeded(served)
refused(served)
