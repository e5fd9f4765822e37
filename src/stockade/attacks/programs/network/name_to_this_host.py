# /// attack
# guarantee = "network"
# summary = "Reaches a service of the host itself by a listed name that leads to a public address of the host."
# reference = "a public address is not private; the host still trusts itself"
# success = "the service answers"
# stage = ["internet"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy an address of this host" }
# ///

from kit import get, refused, succeeded

answer = get("here.example.org", "/")
if b"own service" in answer:
    succeeded()
refused(answer[:80])
