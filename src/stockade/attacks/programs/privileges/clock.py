# /// attack
# guarantee = "privileges"
# summary = "Sets the clock (to what it shows)."
# reference = "clock_settime(2)"
# success = "it is set"
# needs = ["root"]
# refusal = { default = "errno" }
# ///

import time

from kit import attempt, succeeded

attempt(lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()), "EPERM")
succeeded()
