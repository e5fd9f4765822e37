# /// attack
# guarantee = "network"
# summary = "Reaches a private address by its hexadecimal spelling."
# reference = "inet_aton(3)"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy neither a name nor an IPv4 address" }
# ///

from kit import get, judge, target

judge(get("0x0a000005", "/" + target("MARKER"), named="0x0a000005"))
