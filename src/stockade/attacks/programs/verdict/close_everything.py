# /// attack
# guarantee = "verdict"
# summary = "Closes every descriptor and goes on."
# reference = "close_range(2)"
# success = "it ends as it likes, unheard"
# control = { success = "status 42" }
# refusal = { default = "verdict failed 42" }
# ///

import os
import time

os.closerange(0, 4096)
time.sleep(0.2)
os._exit(42)
