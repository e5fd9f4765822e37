# /// attack
# guarantee = "network"
# summary = "Reaches a private address inside a 6to4 address by a listed name that leads there."
# reference = "RFC 3056"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy 6to4" }
# ///

from kit import get, judge, target

judge(get("sixtofour.example.org", "/" + target("MARKER")))
