# /// attack
# guarantee = "memory"
# summary = "Gives the loopback of its own network an address: the kernel keeps a record and a route for each."
# reference = "rtnetlink(7): RTM_NEWADDR"
# success = "the address is there"
# needs = ["user-namespaces"]
# control = { namespaces = ["user", "net"] }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import errno
import os
import socket
import struct

from kit import could_not_run, refused, succeeded

RTM_NEWADDR, REQUEST, ACK, CREATE, IFA_LOCAL = 20, 1, 4, 0x400, 2
address = struct.pack("=BBBBI", socket.AF_INET, 32, 0, 0, 1) + struct.pack("=HH4s", 8, IFA_LOCAL, b"\x0a\x01\x02\x03")
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as asking:
    head = struct.pack("=IHHII", 16 + len(address), RTM_NEWADDR, REQUEST | ACK | CREATE, 1, 0)
    asking.send(head + address)
    code = -struct.unpack_from("=i", asking.recv(4096), 16)[0]
if not code:
    succeeded()
if code == errno.EPERM:
    refused("EPERM")
could_not_run(os.strerror(code))
