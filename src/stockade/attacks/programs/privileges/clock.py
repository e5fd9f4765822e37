# /// attack
# guarantee = "privileges"
# summary = "Sets how fast the machine's clock runs (to what it is)."
# reference = "adjtimex(2), CAP_SYS_TIME"
# success = "it is set"
# control = { touches = "sets the clock's rate to the one that it has" }
# needs = ["root"]
# refusal = { default = "errno" }
# ///

import ctypes
import os

from kit import attempt, succeeded, syscall

ADJ_FREQUENCY = 2
number = {"x86_64": 159, "aarch64": 171}[os.uname().machine]
room = ctypes.create_string_buffer(256)
attempt(lambda: syscall(number, room, 0, 0), "EPERM")
ctypes.c_uint.from_buffer(room).value = ADJ_FREQUENCY
attempt(lambda: syscall(number, room, 0, 0), "EPERM")
succeeded()
