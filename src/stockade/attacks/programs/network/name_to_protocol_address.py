# /// attack
# guarantee = "network"
# summary = "Reaches the block for protocol assignments by a listed name that leads there."
# reference = "RFC 6890, 192.0.0.0/24"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy a special-purpose address" }
# ///

from kit import get, judge, target

judge(get("protocol.example.org", "/" + target("MARKER")))
