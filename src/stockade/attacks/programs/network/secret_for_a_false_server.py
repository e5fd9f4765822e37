# /// attack
# guarantee = "network"
# summary = "Sends a secret to a server that only claims to be its host."
# reference = "RFC 9525"
# success = "that server gets the value"
# stage = ["internet", "secret"]
# observe = ["told"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy has no TLS that proves its name" }
# ///

import os

from kit import by_gateway, judge

KEY = os.environ["API_KEY"]
judge(by_gateway("api.example.com", "/", f"X-Api-Key: {KEY}"))
