# /// attack
# guarantee = "network"
# summary = "Holds many connections to a server at a time."
# reference = "network.connections"
# success = "all of them are served at a time"
# stage = ["internet"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"], connections = 4 } }
# refusal = { default = "errno in turn" }
# ///

import time

from kit import connect, head, refused, succeeded, url

request = head(f"GET {url('example.org', '/slow')}", "Host: example.org", "Connection: close")
socks = [connect("example.org") for _ in range(24)]
begin = time.monotonic()  # each takes half a second: together that, and four at a time three seconds
for sock in socks:
    sock.sendall(request)
served = 0
for sock in socks:
    sock.settimeout(5)
    served += sock.recv(15)[9:12] == b"200"
if served == 24 and time.monotonic() - begin < 2.8:
    succeeded(served)
refused("in turn")
