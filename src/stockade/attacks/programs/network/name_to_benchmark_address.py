# /// attack
# guarantee = "network"
# summary = "Reaches the block for benchmarks by a listed name that leads there."
# reference = "RFC 2544"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy an address for benchmarks" }
# ///

from kit import get, judge, target

judge(get("benchmark.example.org", "/" + target("MARKER")))
