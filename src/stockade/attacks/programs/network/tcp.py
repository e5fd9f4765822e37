# /// attack
# guarantee = "network"
# summary = "Connects to a TCP service on the host's loopback."
# reference = "tcp(7)"
# success = "the service answers"
# stage = ["tcp"]
# observe = ["heard"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket

from kit import attempt, succeeded, target

connection = socket.socket()
attempt(lambda: connection.connect(("127.0.0.1", int(target("PORT")))), "ECONNREFUSED")
if connection.recv(10) == b"heard":
    succeeded()
