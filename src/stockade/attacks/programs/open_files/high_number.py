# /// attack
# guarantee = "open_files"
# summary = "Asks for a descriptor of a high number, past the limit."
# reference = "dup2(2)"
# success = "descriptor 500 is open"
# policy = { limits = { open_files = 32 } }
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, succeeded

attempt(lambda: os.dup2(1, 500), "EBADF")
succeeded()
