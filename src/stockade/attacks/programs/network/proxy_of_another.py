# /// attack
# guarantee = "network"
# summary = "Looks for the proxy of another run on every address of the loopback."
# reference = "ip(7)"
# success = "a proxy that is not its own answers"
# stage = ["internet"]
# needs = ["small-internet"]
# policy = { network = { allow = ["*.example.org:80"] } }
# refusal = { default = "errno nobody but its own proxy" }
# ///

import socket

from kit import refused, succeeded

for address in ("127.0.0.1", "127.0.0.2", "93.184.216.254"):
    for port in (80, 3128, 3129):
        try:
            with socket.create_connection((address, port), 2) as sock:
                sock.settimeout(2)
                sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
                if b"own service" in sock.recv(1 << 16):
                    succeeded((address, port))
        except OSError:
            pass
refused("nobody but its own proxy")
