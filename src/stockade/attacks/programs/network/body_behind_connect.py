# /// attack
# guarantee = "network"
# summary = "Sends a request behind CONNECT at once, in place of TLS."
# reference = "RFC 9110, 9.3.6"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy more than one request came at once" }
# ///

from kit import exchange, has_proxy, head, judge, target

request = head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")
judge(exchange("example.org", (head("CONNECT example.org:80") if has_proxy() else b"") + request))
