# /// attack
# guarantee = "network"
# summary = "Begins a connection of HTTP/2, whose requests nobody would check."
# reference = "RFC 9113, 3.4"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy the proxy speaks HTTP/1.0 and HTTP/1.1" }
# ///

from kit import exchange, has_proxy, head, judge, target

if has_proxy():
    judge(exchange("", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + target("MARKER").encode()))
judge(exchange("example.org", head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")))
