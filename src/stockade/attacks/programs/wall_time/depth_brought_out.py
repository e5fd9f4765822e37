# /// attack
# guarantee = "wall_time"
# summary = "Leaves a file below more folders than anybody should go down."
# reference = "path_resolution(7)"
# success = "a collector finds it"
# observe = ["brought_out"]
# artifacts = ["**"]
# control = { success = "status 0", collector = "take" }
# refusal = { default = "verdict completed" }
# ///

import os

for _ in range(70):
    os.mkdir("d")
    os.chdir("d")
open("answer", "w").close()
os._exit(0)
