# /// attack
# guarantee = "process_view"
# summary = "Asks where the memory of a process of the host lies, which also says that it is there."
# reference = "move_pages(2)"
# success = "the kernel answers"
# stage = ["victim"]
# refusal = { default = "errno" }
# ///

import ctypes
import os

from kit import attempt, succeeded, syscall, target

number = {"x86_64": 279, "aarch64": 239}[os.uname().machine]
pages, status = (ctypes.c_void_p * 1)(0x400000), (ctypes.c_int * 1)()
attempt(lambda: syscall(number, int(target("VICTIM")), 1, pages, 0, status, 0), "ESRCH", "EPERM", "ENOSYS")
succeeded()
