# /// attack
# guarantee = "network"
# summary = "Sends a secret to its host without TLS, for everybody on the way."
# reference = "RFC 6750, 5.3"
# success = "that server gets the value"
# stage = ["internet", "secret"]
# observe = ["told"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy only by the gateway" }
# ///

import os

from kit import get, judge

KEY = os.environ["API_KEY"]
judge(get("api.example.org", "/", f"Authorization: Bearer {KEY}"))
