# /// attack
# guarantee = "cpu_time"
# summary = "Has a regular expression backtrack for ever: one call of C in which the interpreter sees to nothing else."
# reference = "CWE-1333"
# success = "it is still at it after three seconds"
# control = { success = "alive", seconds = 3 }
# policy = { limits = { cpu_time = 0.5 } }
# refusal = { default = "limit cpu_time" }
# ///

import re

re.fullmatch(r"(a|a)*b", "a" * 64)
