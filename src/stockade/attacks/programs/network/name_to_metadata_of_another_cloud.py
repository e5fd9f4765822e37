# /// attack
# guarantee = "network"
# summary = "Reaches a metadata service at a public-looking address by a listed name that leads there."
# reference = "168.63.129.16, the platform address of one cloud"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy a metadata address of a cloud" }
# ///

from kit import get, judge, target

judge(get("azure.example.org", "/" + target("MARKER")))
