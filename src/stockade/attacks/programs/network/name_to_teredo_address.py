# /// attack
# guarantee = "network"
# summary = "Reaches an address of the Teredo service by a listed name that leads there."
# reference = "RFC 4380"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy Teredo" }
# ///

from kit import get, judge, target

judge(get("teredo.example.org", "/" + target("MARKER")))
