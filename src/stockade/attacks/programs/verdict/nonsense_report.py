# /// attack
# guarantee = "verdict"
# summary = "Writes what makes readers fall over on the result channel: nested too deep, with numbers that are none."
# reference = "json in RFC 8259"
# success = "somebody reads it"
# control = { success = "bytes channel 100000" }
# refusal = { default = "verdict failed 42" }
# ///

import os

os.write(3, b'{"value": NaN, "repr": 5, "error": {"type": [], "message": ' + b"[" * 60000)
os.write(3, b"\xff\x00" * 30000)
os._exit(42)
