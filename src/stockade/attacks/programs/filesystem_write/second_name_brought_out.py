# /// attack
# guarantee = "filesystem_write"
# summary = "Leaves a file by two names, of which one may be anybody's."
# reference = "link(2)"
# success = "a collector brings it out"
# observe = ["brought_out"]
# artifacts = ["**"]
# control = { success = "status 0", collector = "take" }
# refusal = { default = "verdict completed" }
# ///

import os

with open("answer.txt", "w") as file:
    file.write("mine")
os.link("answer.txt", "other")
os._exit(0)
