# /// attack
# guarantee = "network"
# summary = "Reaches a private address by a spelling of two parts."
# reference = "inet_aton(3)"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy neither a name nor an IPv4 address" }
# ///

from kit import get, judge, target

judge(get("10.5", "/" + target("MARKER"), named="10.5"))
