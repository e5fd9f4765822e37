# /// attack
# guarantee = "environment"
# summary = "Looks for the caller's secrets in all of its own memory, where a fork could have left them."
# reference = "fork(2), execve(2)"
# success = "the secret is there"
# stage = ["caller_secret"]
# observe = ["secret"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import could_not_run, has_secret, refused, succeeded

memory = os.open("/proc/self/mem", os.O_RDONLY)
looked = 0
with open("/proc/self/maps") as maps:
    lines = maps.read().splitlines()
for line in lines:
    place, mode = line.split()[:2]
    if mode[0] != "r" or "[v" in line:
        continue
    begin, end = (int(word, 16) for word in place.split("-"))
    try:
        piece = os.pread(memory, end - begin, begin)
    except OSError:
        continue
    looked += len(piece)
    if has_secret(piece):
        succeeded(line)
if looked < 1 << 20:
    could_not_run(f"{looked} bytes")
refused(f"{looked} bytes")
