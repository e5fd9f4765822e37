# /// attack
# guarantee = "network"
# summary = "Names another site in Host than in its URL."
# reference = "RFC 9112, 3.2.2"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy the Host field names" }
# ///

from kit import exchange, head, judge, target, url

judge(
    exchange(
        "example.org",
        head(f"GET {url('example.org', '/')}", f"Host: {target('MARKER')}.example.net", "Connection: close"),
    )
)
