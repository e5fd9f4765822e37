# /// attack
# guarantee = "network"
# summary = "Reaches a private address in the old compatible form by a listed name that leads there."
# reference = "RFC 4291, section 2.5.5.1"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy not a global address" }
# ///

from kit import get, judge, target

judge(get("compatible.example.org", "/" + target("MARKER")))
