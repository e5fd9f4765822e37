# /// attack
# guarantee = "network"
# summary = "Reaches a block for documentation by a listed name that leads there."
# reference = "RFC 5737"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy an address for documentation" }
# ///

from kit import get, judge, target

judge(get("documented.example.org", "/" + target("MARKER")))
