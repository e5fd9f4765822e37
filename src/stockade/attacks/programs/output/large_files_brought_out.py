# /// attack
# guarantee = "output"
# summary = "Leaves files, each of a size that is still taken, and too many of them."
# reference = "lseek(2), sparse files"
# success = "a collector takes 75 MiB"
# observe = ["too_much"]
# artifacts = ["**"]
# control = { success = "status 0", collector = "take" }
# refusal = { default = "verdict completed" }
# ///

import os

for number in range(5):
    with open(f"answer{number}", "w") as file:
        file.truncate(15 << 20)
os._exit(0)
