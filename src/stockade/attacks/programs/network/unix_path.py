# /// attack
# guarantee = "network"
# summary = "Connects to a socket of the host that lies in a folder, as container engines' do."
# reference = "unix(7)"
# success = "the service answers"
# stage = ["unix"]
# observe = ["heard"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket

from kit import attempt, succeeded, target

connection = socket.socket(socket.AF_UNIX)
attempt(lambda: connection.connect(target("SOCKET")), "ENOENT")
if connection.recv(10) == b"heard":
    succeeded()
