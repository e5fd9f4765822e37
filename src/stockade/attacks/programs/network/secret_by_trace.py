# /// attack
# guarantee = "network"
# summary = "Has a server repeat a secret by the method that repeats the head."
# reference = "RFC 9110, 9.3.8"
# success = "the guest reads the value"
# stage = ["internet", "secret"]
# observe = ["secret"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy TRACE makes a server repeat the head" }
# ///

import os

from kit import by_gateway, has_secret, refused, succeeded

KEY = os.environ["API_KEY"]
answer = by_gateway("api.example.org", "/", f"X-Api-Key: {KEY}", method="TRACE")
if has_secret(answer):
    succeeded()
refused(answer[:80])
