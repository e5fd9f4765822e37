# /// attack
# guarantee = "wall_time"
# summary = "Leaves pipes with names where its files are looked for, so that who collects them waits for ever."
# reference = "fifo(7): opening one waits for the other end"
# success = "a collector that opens what it finds is held up"
# control = { success = "status 0", collector = "read" }
# observe = ["blocked"]
# refusal = { default = "verdict completed" }
# ///

import os

for folder in {os.getcwd(), os.environ.get("TMPDIR", ".")}:
    os.mkfifo(os.path.join(folder, "answer"))
    os.mkfifo(os.path.join(folder, "result.json"))
os._exit(0)
