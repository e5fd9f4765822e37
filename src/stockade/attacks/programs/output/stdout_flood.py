# /// attack
# guarantee = "output"
# summary = "Floods standard output."
# reference = "pipe(7)"
# success = "64 times the limit is read by somebody"
# control = { success = "bytes stdout 4194304" }
# policy = { on_output = "kill" }
# refusal = { default = "limit output" }
# ///

import os

for _ in range(64):
    os.write(1, b"x" * 65536)
os._exit(42)
