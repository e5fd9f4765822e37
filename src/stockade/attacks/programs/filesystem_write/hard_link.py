# /// attack
# guarantee = "filesystem_write"
# summary = "Links a file that is shown read-only into a folder that can be written."
# reference = "link(2): EXDEV holds between two mounts of one file system as well"
# success = "the file is written through its other name"
# stage = ["readonly"]
# observe = ["changed"]
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, succeeded, target

attempt(lambda: os.link(target("READONLY") + "/file", "link"), "EXDEV")
with open("link", "w") as file:
    file.write("changed")
succeeded()
