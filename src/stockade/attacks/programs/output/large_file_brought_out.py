# /// attack
# guarantee = "output"
# summary = "Leaves a file that is mostly hole, larger than anybody should take into his memory."
# reference = "lseek(2), sparse files"
# success = "a collector takes 17 MiB"
# observe = ["too_much"]
# artifacts = ["**"]
# control = { success = "status 0", collector = "take" }
# refusal = { default = "verdict completed" }
# ///

import os

with open("answer.txt", "w") as file:
    file.truncate(17 << 20)
os._exit(0)
