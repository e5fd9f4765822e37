# /// attack
# guarantee = "memory"
# summary = "Fills the buffers of TCP connections over loopback: control groups of version 1 count them apart."
# reference = "tcp(7), cgroup-v1/memory.rst: memory.kmem.tcp.limit_in_bytes"
# success = "four times the limit lies in buffers"
# policy = { limits = { memory = "32MiB", open_files = 1024 } }
# refusal = { process = "denied EACCES", default = "limit memory" }
# ///

import socket
import time

from kit import attempt, succeeded

held, kept = 0, []
listener = attempt(socket.socket)
listener.bind(("127.0.0.1", 0))
listener.listen()
deadline = time.monotonic() + 8
while held < 128 << 20 and time.monotonic() < deadline and len(kept) < 800:
    one = socket.create_connection(listener.getsockname())
    kept += [one, listener.accept()[0]]
    one.setblocking(False)
    try:
        while True:
            held += one.send(b"x" * 65536)
    except BlockingIOError:
        pass
time.sleep(0.5)
if held >= 128 << 20:
    succeeded(held)
