# /// attack
# guarantee = "network"
# summary = "Asks for a tunnel to a machine on the same link, by an address with a zone."
# reference = "RFC 4007"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "proxy without a zone" }
# ///

from kit import exchange, has_proxy, head, judge, target

if has_proxy():
    judge(exchange("", head("CONNECT [fe80::5%near]:80", "Host: [fe80::5%near]:80")))
judge(exchange("fe80::5%near", head(f"GET /{target('MARKER')}", "Host: x", "Connection: close")))
