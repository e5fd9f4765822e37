# /// attack
# guarantee = "network"
# summary = "Reaches a private address in mapped form by a listed name that leads there."
# reference = "RFC 4291, section 2.5.5.2"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy an IPv4 address in IPv6 form" }
# ///

from kit import get, judge, target

judge(get("mapped.example.org", "/" + target("MARKER")))
