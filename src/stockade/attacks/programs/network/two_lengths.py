# /// attack
# guarantee = "network"
# summary = "Smuggles a request behind two lengths."
# reference = "RFC 9112, 6.3"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy Content-Length must be one number" }
# ///

from kit import exchange, head, judge, target, url

inner = head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")
lengths = ("Content-Length: 0", f"Content-Length: {len(inner)}")
judge(exchange("example.org", head(f"POST {url('example.org', '/first')}", "Host: example.org", *lengths) + inner))
