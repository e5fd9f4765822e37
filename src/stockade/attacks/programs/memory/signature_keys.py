# /// attack
# guarantee = "memory"
# summary = "Adds keys that sign segments to many TCP sockets: the kernel does not count their memory."
# reference = "tcp(7) TCP_MD5SIG, sock_kmalloc in net/core/sock.c"
# success = "a hundred sockets have sixty keys each"
# needs = ["signed-tcp"]
# admitted = { gvisor = "gVisor's own memory counts" }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket
import struct

from kit import attempt, succeeded

SIGNATURE, KEY = 14, b"k" * 80
kept = [attempt(socket.socket) for _ in range(100)]
for one in kept:
    for number in range(60):
        peer = struct.pack("=HH4B120x", socket.AF_INET, 0, 127, 1, 0, number)
        key = peer + struct.pack("=BBHI", 0, 0, len(KEY), 0) + KEY
        attempt(lambda one=one, key=key: one.setsockopt(socket.IPPROTO_TCP, SIGNATURE, key), "ENOPROTOOPT")
succeeded()
