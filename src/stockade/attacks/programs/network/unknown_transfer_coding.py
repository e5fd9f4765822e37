# /// attack
# guarantee = "network"
# summary = "Smuggles a request behind a coding that parsers read in two ways."
# reference = "RFC 9112, 6.1"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy Transfer-Encoding must be" }
# ///

from kit import exchange, head, judge, target, url

inner = head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")
coding = "Transfer-Encoding: x, chunked"
judge(exchange("example.org", head(f"POST {url('example.org', '/first')}", "Host: example.org", coding) + inner))
