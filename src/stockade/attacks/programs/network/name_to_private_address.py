# /// attack
# guarantee = "network"
# summary = "Reaches a private address by a listed name that leads there."
# reference = "RFC 1918"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy a private address" }
# ///

from kit import get, judge, target

judge(get("private.example.org", "/" + target("MARKER")))
