# /// attack
# guarantee = "filesystem_write"
# summary = "Writes to a file that is shown read-only, and whose mode would let it."
# reference = "mount(2), MS_RDONLY"
# success = "the file has changed"
# stage = ["readonly"]
# observe = ["changed"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import attempt, succeeded, target

fd = attempt(lambda: os.open(target("READONLY") + "/file", os.O_WRONLY | os.O_APPEND), "EROFS")
os.write(fd, b"changed")
succeeded()
