# /// attack
# guarantee = "network"
# summary = "Names two sites in two fields."
# reference = "RFC 9112, 3.2"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy exactly one Host" }
# ///

from kit import exchange, head, judge, target, url

fields = ("Host: example.org", f"Host: {target('MARKER')}.example.net", "Connection: close")
judge(exchange("example.org", head(f"GET {url('example.org', '/')}", *fields)))
