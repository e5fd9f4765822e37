# /// attack
# guarantee = "memory"
# summary = "Fills sockets that nobody reads, and passes more of them in flight."
# reference = "unix(7), SO_SNDBUF"
# success = "twice the limit lies in sockets"
# needs = ["cgroup-memory"]
# policy = { limits = { memory = "16MiB", open_files = 1024 } }
# refusal = { default = "limit memory" }
# ///

import socket

from kit import succeeded

held, kept = 0, []
while held < 32 << 20 and len(kept) < 400:
    one, other = socket.socketpair()
    one.setblocking(False)
    kept += [one, other]
    try:
        while True:
            held += one.send(b"x" * 65536)
    except BlockingIOError:
        pass
succeeded(held)
