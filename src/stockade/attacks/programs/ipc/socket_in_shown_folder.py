# /// attack
# guarantee = "ipc"
# summary = "Connects to a socket of the host that lies in a folder shown for reading, while its service starts again and again."
# reference = "unix(7)"
# success = "the service answers"
# stage = ["unix_shown"]
# observe = ["heard"]
# refusal = { default = "errno EACCES" }
# ///

import socket
import time

from kit import attempt, could_not_run, succeeded, target

connection = attempt(lambda: socket.socket(socket.AF_UNIX), "EACCES")
for _ in range(200):
    try:
        connection.connect(target("SOCKET"))
    except (FileNotFoundError, ConnectionRefusedError):
        time.sleep(0.01)
        continue
    if connection.recv(10) == b"heard":
        succeeded()
    could_not_run("the service said nothing")
could_not_run("the service was never there")
