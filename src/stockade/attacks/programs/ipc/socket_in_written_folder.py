# /// attack
# guarantee = "ipc"
# summary = "Connects to a socket of the host that lies in a folder shown for writing, under a second name."
# reference = "unix(7), link(2)"
# success = "the service answers"
# stage = ["unix_written"]
# observe = ["heard"]
# refusal = { default = "errno EACCES" }
# ///

import contextlib
import os
import socket
import time

from kit import attempt, could_not_run, succeeded, target

connection = attempt(lambda: socket.socket(socket.AF_UNIX), "EACCES")
for _ in range(200):
    try:
        os.link(target("SOCKET"), target("SOCKET") + "2")
        connection.connect(target("SOCKET") + "2")
    except (FileNotFoundError, ConnectionRefusedError, FileExistsError, PermissionError):
        connection.connect_ex(target("SOCKET"))
    with contextlib.suppress(OSError):
        if connection.recv(10) == b"heard":
            succeeded()
    time.sleep(0.01)
could_not_run("the service was never there")
