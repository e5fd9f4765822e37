# /// attack
# guarantee = "open_files"
# summary = "Keeps open files in messages that nobody takes, where they count for no process."
# reference = "unix(7): ETOOMANYREFS"
# success = "200 files are open in flight"
# policy = { limits = { open_files = 32 } }
# admitted = { gvisor = "in messages" }
# refusal = { default = "errno" }
# ///

import os
import socket

from kit import attempt, succeeded

holder, kept = socket.socketpair()
for _ in range(10):
    one, other = socket.socketpair()
    for _ in range(20):
        fd = os.open("/dev/null", os.O_RDONLY)
        attempt(lambda: socket.send_fds(one, [b"x"], [fd]), "ETOOMANYREFS")
        os.close(fd)
    # Sent away themselves, with all that lies in them, the two take no descriptor either.
    attempt(lambda: socket.send_fds(holder, [b"x"], [one.fileno(), other.fileno()]), "ETOOMANYREFS")
    one.close()
    other.close()
succeeded()
