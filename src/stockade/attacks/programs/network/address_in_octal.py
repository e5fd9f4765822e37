# /// attack
# guarantee = "network"
# summary = "Reaches a private address by its octal spelling."
# reference = "inet_aton(3)"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy neither a name nor an IPv4 address" }
# ///

from kit import get, judge, target

judge(get("012.0.0.5", "/" + target("MARKER"), named="012.0.0.5"))
