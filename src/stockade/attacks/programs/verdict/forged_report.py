# /// attack
# guarantee = "verdict"
# summary = "Writes a report of success on the result channel and fails."
# reference = "pipe(7)"
# success = "who believes what stands there believes that all went well"
# control = { success = "bytes channel 50" }
# refusal = { default = "verdict failed 42" }
# ///

import json
import os

forged = {"outcome": "completed", "exit_code": 0, "status": 0, "limit": None, "signal": None, "error": None}
os.write(3, json.dumps(forged).encode() + b"\n")
os._exit(42)
