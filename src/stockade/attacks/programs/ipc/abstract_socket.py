# /// attack
# guarantee = "ipc"
# summary = "Connects to an abstract socket of the host, which has no file to hide."
# reference = "unix(7)"
# success = "the service answers"
# stage = ["abstract"]
# observe = ["heard"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket

from kit import attempt, succeeded, target

connection = socket.socket(socket.AF_UNIX)
attempt(lambda: connection.connect(target("SOCKET").replace("@", "\0")), "ECONNREFUSED")
if connection.recv(10) == b"heard":
    succeeded()
