# /// attack
# guarantee = "network"
# summary = "Reaches a name that looks like a listed one, in its own letters."
# reference = "RFC 5890"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy characters that a URL cannot have" }
# ///

from kit import get, judge, target

NAME = "ex\u0430mple.org"
judge(get(NAME, "/" + target("MARKER")))
