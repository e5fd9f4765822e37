# /// attack
# guarantee = "network"
# summary = "Hides a second Host behind more bytes than a proxy may read."
# reference = "RFC 9112, 3 and 5.4"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy the head of the request is too long" }
# ///

from kit import exchange, head, judge, target, url

long = [f"X-{number}: {'a' * 1000}" for number in range(60)]
fields = ("Host: example.org", *long, f"X-Last: {target('MARKER')}", "Connection: close")
judge(exchange("example.org", head(f"GET {url('example.org', '/')}", *fields)))
