# /// attack
# guarantee = "filesystem_write"
# summary = "Makes, renames and removes files in a folder that is shown read-only."
# reference = "mount(2), MS_RDONLY"
# success = "one of the three works"
# stage = ["readonly"]
# observe = ["changed"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import refused, refused_with, succeeded, target

folder = target("READONLY")
ways = [
    lambda: os.close(os.open(f"{folder}/new", os.O_CREAT | os.O_WRONLY)),
    lambda: os.rename(f"{folder}/file", f"{folder}/other"),
    lambda: os.unlink(f"{folder}/program"),
    lambda: os.symlink("/etc", f"{folder}/link"),
    lambda: os.mkdir(f"{folder}/folder"),
]
if all(refused_with(way, "EROFS") for way in ways):
    refused("EROFS")
succeeded()
