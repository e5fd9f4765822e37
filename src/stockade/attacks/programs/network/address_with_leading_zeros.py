# /// attack
# guarantee = "network"
# summary = "Reaches a private address by a spelling with a leading zero."
# reference = "CVE-2021-29921"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy neither a name nor an IPv4 address" }
# ///

from kit import get, judge, target

judge(get("10.0.0.05", "/" + target("MARKER"), named="10.0.0.05"))
