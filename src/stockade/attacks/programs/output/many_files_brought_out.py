# /// attack
# guarantee = "output"
# summary = "Leaves more files than anybody should take."
# reference = "open(2)"
# success = "a collector takes 1,100"
# observe = ["too_much"]
# artifacts = ["**"]
# control = { success = "status 0", collector = "take" }
# refusal = { default = "verdict completed" }
# ///

import os

for number in range(1100):
    open(f"answer{number}", "w").close()
os._exit(0)
