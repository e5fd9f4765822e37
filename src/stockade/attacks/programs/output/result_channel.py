# /// attack
# guarantee = "output"
# summary = "Floods the descriptor on which a result would be told."
# reference = "pipe(7)"
# success = "who reads it keeps it all: 32 MiB"
# stage = ["reader"]
# observe = ["hoarded"]
# control = { success = "bytes channel 33554432" }
# refusal = { default = "verdict failed 42" }
# ///

import os

for _ in range(512):
    os.write(3, b"[" * 65536)
os._exit(42)
