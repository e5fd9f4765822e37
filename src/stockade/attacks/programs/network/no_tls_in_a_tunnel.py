# /// attack
# guarantee = "network"
# summary = "Speaks HTTP to another site in a tunnel to a listed name."
# reference = "RFC 9110, 9.3.6"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"] } }
# refusal = { default = "proxy this is not TLS" }
# ///

from kit import has_proxy, head, judge, refused, target, tunnel

sock = tunnel("example.org", 80)
sock.sendall(head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close"))
answer = sock.recv(1 << 16)
if has_proxy() and not answer.startswith(b"HTTP"):
    refused("not HTTP")
judge(answer)
