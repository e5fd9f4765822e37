# /// attack
# guarantee = "ipc"
# summary = "Sends a datagram to a socket of the host in a folder shown for reading, from one of a pair and without a connection."
# reference = "unix(7), sendto(2)"
# success = "the service has it"
# stage = ["datagrams_shown"]
# observe = ["heard"]
# refusal = { default = "errno EACCES" }
# ///

import socket
import time

from kit import attempt, could_not_run, succeeded, target

pair = attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM), "EACCES")
for _ in range(200):
    try:
        pair[0].sendto(b"heard", target("SOCKET"))
    except (FileNotFoundError, ConnectionRefusedError):
        time.sleep(0.01)
        continue
    time.sleep(0.1)
    succeeded()
could_not_run("the service was never there")
