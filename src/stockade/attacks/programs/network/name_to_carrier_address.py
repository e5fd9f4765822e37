# /// attack
# guarantee = "network"
# summary = "Reaches the provider's own network by a listed name that leads there."
# reference = "RFC 6598"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy provider" }
# ///

from kit import get, judge, target

judge(get("shared.example.org", "/" + target("MARKER")))
