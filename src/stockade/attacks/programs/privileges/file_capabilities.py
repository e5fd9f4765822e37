# /// attack
# guarantee = "privileges"
# summary = "Gives a program of its own a capability, to have it when that runs."
# reference = "capabilities(7), security.capability"
# success = "the file has it"
# needs = ["root"]
# refusal = { default = "errno" }
# ///

import os
import struct

from kit import attempt, succeeded

open("program", "w").close()
value = struct.pack("<IIIII", 0x02000001, 1 << 21, 0, 0, 0)  # CAP_SYS_ADMIN, effective
attempt(lambda: os.setxattr("program", "security.capability", value), "EPERM", "EOPNOTSUPP")
succeeded()
