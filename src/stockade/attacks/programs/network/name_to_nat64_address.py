# /// attack
# guarantee = "network"
# summary = "Reaches a private address inside a NAT64 address by a listed name that leads there."
# reference = "RFC 6052"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy NAT64" }
# ///

from kit import get, judge, target

judge(get("nat.example.org", "/" + target("MARKER")))
