# /// attack
# guarantee = "network"
# summary = "Reaches a metadata service over IPv6 by a listed name that leads there."
# reference = "RFC 4193"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy a private address" }
# ///

from kit import get, judge, target

judge(get("six.example.org", "/" + target("MARKER")))
