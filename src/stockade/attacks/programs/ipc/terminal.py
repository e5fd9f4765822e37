# /// attack
# guarantee = "ipc"
# summary = "Writes to another's terminal, escape sequences and all."
# reference = "pts(4)"
# success = "it is shown there"
# stage = ["terminal"]
# observe = ["shown"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import attempt, succeeded, target

fd = attempt(lambda: os.open(target("TERMINAL"), os.O_WRONLY | os.O_NOCTTY), "ENOENT")
os.write(fd, b"\x1b]2;attacked\x07")
succeeded()
