# /// attack
# guarantee = "network"
# summary = "Reaches a listed name with a dot at its end, which a server may take for another site."
# reference = "RFC 1034, 3.1"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy without the dot at its end" }
# ///

from kit import get, judge, target

judge(get("example.org.", "/" + target("MARKER")))
