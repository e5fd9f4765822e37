# /// attack
# guarantee = "output"
# summary = "Leaves a file whose name is no text, for whoever prints it."
# reference = "pathname(7)"
# success = "a collector brings it out"
# observe = ["brought_out"]
# artifacts = ["**"]
# control = { success = "status 0", collector = "take" }
# refusal = { default = "verdict completed" }
# ///

import os

open(b"answer\xff\xfe", "w").close()
os._exit(0)
