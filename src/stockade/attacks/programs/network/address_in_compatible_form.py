# /// attack
# guarantee = "network"
# summary = "Reaches a private address by its compatible form."
# reference = "RFC 4291, section 2.5.5.1"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy is not in network.allow" }
# ///

from kit import get, judge, target

judge(get("::10.0.0.5", "/" + target("MARKER"), named="[::10.0.0.5]"))
