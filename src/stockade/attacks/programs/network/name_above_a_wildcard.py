# /// attack
# guarantee = "network"
# summary = "Reaches the domain whose lower names alone are listed."
# reference = "RFC 1034, 3.1"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy example.org:80 is not in network.allow" }
# ///

from kit import get, judge, target

judge(get("example.org", "/" + target("MARKER")))
