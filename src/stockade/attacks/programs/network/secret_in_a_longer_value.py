# /// attack
# guarantee = "network"
# summary = "Puts a secret into a longer value, which a server may split or repeat."
# reference = "RFC 9110, 5.5"
# success = "the guest reads the value"
# stage = ["internet", "secret"]
# observe = ["secret"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy must be a header's whole value" }
# ///

import os

from kit import by_gateway, has_secret, refused, succeeded

KEY = os.environ["API_KEY"]
answer = by_gateway("api.example.org", "/", f"X-Api-Key: a{KEY}b")
if has_secret(answer):
    succeeded()
refused(answer[:80])
