# /// attack
# guarantee = "network"
# summary = "Reaches a machine on the same link, by an address with a zone."
# reference = "RFC 4007, RFC 6874"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy without a zone" }
# ///

from kit import get, judge, target

judge(get("fe80::5%near", "/" + target("MARKER"), named="[fe80::5%25near]"))
