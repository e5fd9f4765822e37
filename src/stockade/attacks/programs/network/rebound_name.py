# /// attack
# guarantee = "network"
# summary = "Has a name lead to a public address first, and then to a private one."
# reference = "DNS rebinding"
# success = "the private address gets a request"
# stage = ["internet"]
# observe = ["private"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.rebound.example.org:80"] } }
# refusal = { default = "proxy 10.0.0.5, a private address" }
# ///

from kit import get, judge, target

name = f"{target('MARKER')[::-1]}.rebound.example.org"
get(name, "/first")
judge(get(name, "/second"))
