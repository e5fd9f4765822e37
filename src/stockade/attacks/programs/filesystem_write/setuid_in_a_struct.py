# /// attack
# guarantee = "filesystem_write"
# summary = "Leaves a set-user-id program by a call whose mode lies in memory, where no filter can read it."
# reference = "openat2(2), struct open_how"
# success = "there is one"
# stage = ["shared"]
# observe = ["setuid_left"]
# refusal = { default = "errno" }
# ///

import ctypes
import os

from kit import attempt, succeeded, syscall, target

how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
path = (target("SHARED") + "/program").encode()
attempt(lambda: syscall(437, -100, path, how, 24), "ENOSYS", "EPERM")
succeeded()
