# /// attack
# guarantee = "network"
# summary = "Has a listed server switch to another protocol unasked."
# reference = "RFC 9110, 15.2.2"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy the server switched to another protocol" }
# ///

from kit import exchange, has_proxy, head, judge, refused, target, url

first = head(f"GET {url('example.org', '/switch')}", "Host: example.org")
second = head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close")
answer = exchange("example.org", first, second)
if has_proxy() and b" 101 " not in answer:
    refused("no switch")
judge(answer.partition(b"\r\n\r\n")[2])
