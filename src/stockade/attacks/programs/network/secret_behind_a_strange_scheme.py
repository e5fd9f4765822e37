# /// attack
# guarantee = "network"
# summary = "Puts a secret behind text of its own choice."
# reference = "RFC 9110, 11.4"
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
answer = by_gateway("api.example.org", "/", f"Authorization: a,b {KEY}")
if has_secret(answer):
    succeeded()
refused(answer[:80])
