# /// attack
# guarantee = "filesystem_write"
# summary = "Leaves a pipe with a name like a file's where files are brought out."
# reference = "fifo(7)"
# success = "a collector takes one for a file"
# observe = ["brought_out"]
# artifacts = ["**"]
# control = { success = "status 0", collector = "take" }
# refusal = { default = "verdict completed" }
# ///

import os

os.mkfifo("answer.txt")
if os.fork() == 0:  # where nobody holds the other end, who opens it waits
    os.close(1)
    os.close(2)
    with open("answer.txt", "w") as file:
        file.write("piped")
    os._exit(0)
os._exit(0)
