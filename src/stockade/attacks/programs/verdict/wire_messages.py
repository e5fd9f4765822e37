# /// attack
# guarantee = "verdict"
# summary = "Writes messages of the supervisor's own protocol into every descriptor it has."
# reference = "the warden's wire protocol: a length and a marshalled message"
# success = "somebody reads them"
# control = { success = "bytes channel 50" }
# refusal = { default = "verdict failed 42" }
# ///

import marshal
import os
import struct

told = ("exit", {"status": 0, "cpu_seconds": 0.0, "peak_memory": 0, "disk_free": 1, "inodes_free": 1})
body = marshal.dumps(told, 4)
frame = struct.pack(">I", len(body)) + body
for number in range(1, 64):
    try:
        os.write(number, frame)
    except OSError:
        continue
os._exit(42)
