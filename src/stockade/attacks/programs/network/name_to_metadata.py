# /// attack
# guarantee = "network"
# summary = "Reaches a cloud's metadata service by a listed name that leads there."
# reference = "RFC 3927"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy a link-local address" }
# ///

from kit import get, judge, target

judge(get("metadata.example.org", "/" + target("MARKER")))
