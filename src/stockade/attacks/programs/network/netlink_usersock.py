# /// attack
# guarantee = "network"
# summary = "Sends to a process of the host over a netlink family that carries messages between users."
# reference = "netlink(7), NETLINK_USERSOCK"
# success = "the process has heard it"
# stage = ["usersock"]
# observe = ["heard"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket
import struct
import time

from kit import attempt, succeeded, target

message = struct.pack("=IHHII", 21, 16, 0, 1, 0) + b"heard"
sender = attempt(
    lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2), "EPERM", "EAFNOSUPPORT", "EPROTONOSUPPORT"
)
attempt(lambda: sender.sendto(message, (int(target("PORT")), 0)), "ECONNREFUSED", "EPERM")
time.sleep(0.2)
succeeded()
