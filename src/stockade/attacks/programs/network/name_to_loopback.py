# /// attack
# guarantee = "network"
# summary = "Reaches a service of the host itself by a listed name that leads to 127.0.0.1."
# reference = "RFC 1122, 3.2.1.3"
# success = "the service answers"
# stage = ["internet"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy a loopback address" }
# ///

from kit import get, refused, succeeded

answer = get("loopback.example.org", "/")
if b"own service" in answer:
    succeeded()
refused(answer[:80])
