# /// attack
# guarantee = "output"
# summary = "Opens its standard output anew, by name, for a stream that nobody has counted yet."
# reference = "proc(5), /proc/pid/fd; /dev/stdout"
# success = "eight times the limit is written"
# control = { success = "bytes stdout 80000" }
# policy = { limits = { output = 10000 } }
# refusal = { process = "cut stdout", default = "cut stdout" }
# ///

import os

from kit import SUCCEEDED

for path in ("/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"):
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        fd = os.dup(1)  # where the name is closed, the stream is still counted
    for _ in range(28):
        os.write(fd, b"x" * 1000)
os._exit(SUCCEEDED)
