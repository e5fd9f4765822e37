# /// attack
# guarantee = "output"
# summary = "Floods standard error, where fewer look."
# reference = "pipe(7)"
# success = "64 times the limit is read by somebody"
# control = { success = "bytes stderr 4194304" }
# refusal = { default = "cut stderr" }
# ///

import os

for _ in range(64):
    os.write(2, b"x" * 65536)
os._exit(42)
