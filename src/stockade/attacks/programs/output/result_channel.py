# /// attack
# guarantee = "output"
# summary = "Floods the descriptor on which a result would be told."
# reference = "pipe(7)"
# success = "4 MiB are read by somebody"
# control = { success = "bytes channel 4194304" }
# refusal = { default = "verdict failed 42" }
# ///

import os

for _ in range(64):
    os.write(3, b"[" * 65536)
os._exit(42)
