# /// attack
# guarantee = "wall_time"
# summary = "Sleeps past its time."
# reference = "nanosleep(2)"
# success = "three times the limit goes by"
# policy = { limits = { wall_time = 0.5 } }
# refusal = { default = "limit wall_time" }
# ///

import time

from kit import succeeded

time.sleep(1.5)
succeeded()
