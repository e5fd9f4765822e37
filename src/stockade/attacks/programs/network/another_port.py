# /// attack
# guarantee = "network"
# summary = "Reaches another port of a listed name."
# reference = "RFC 9110, 4.2"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy example.org:8080 is not in network.allow" }
# ///

from kit import get, judge, target

judge(get("example.org", "/" + target("MARKER"), port=8080))
