# /// attack
# guarantee = "network"
# summary = "Hides a second Host in a folded line."
# reference = "RFC 9112, 5.2"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy a header field needs a name and a colon" }
# ///

from kit import exchange, head, judge, target, url

fields = ("Host: example.org", "X-Other: a", f" Host: {target('MARKER')}.example.net", "Connection: close")
judge(exchange("example.org", head(f"GET {url('example.org', '/')}", *fields)))
