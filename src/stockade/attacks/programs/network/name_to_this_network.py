# /// attack
# guarantee = "network"
# summary = "Reaches a service of the host itself by a listed name that leads to 0.0.0.0."
# reference = "ip(7), INADDR_ANY; connect(2) takes it for this host"
# success = "the service answers"
# stage = ["internet"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy an address of this network" }
# ///

from kit import get, refused, succeeded

answer = get("zero.example.org", "/")
if b"own service" in answer:
    succeeded()
refused(answer[:80])
