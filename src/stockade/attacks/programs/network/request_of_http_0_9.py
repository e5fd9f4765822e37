# /// attack
# guarantee = "network"
# summary = "Sends a request without a version, which has no Host."
# reference = "RFC 9112, 2.3"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy the request line needs a method, a URL and a version" }
# ///

from kit import exchange, has_proxy, judge, succeeded, target, url

answer = exchange("example.org", f"GET {url('example.org', '/' + target('MARKER'))}\r\n\r\n".encode())
if not has_proxy():
    succeeded(answer[:20])
judge(answer)
