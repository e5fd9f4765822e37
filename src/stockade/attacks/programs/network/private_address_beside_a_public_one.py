# /// attack
# guarantee = "network"
# summary = "Has a name lead to a private address and to a public one at once."
# reference = "DNS rebinding"
# success = "the private address gets a request"
# stage = ["internet"]
# observe = ["private"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "errno only the public address" }
# ///

from kit import get, refused, succeeded

answer = get("mixed.example.org", "/")
if b"10.0.0.5" in answer:
    succeeded()
refused("only the public address")
