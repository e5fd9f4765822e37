# /// attack
# guarantee = "privileges"
# summary = "Watches everything that runs on a processor, the kernel included."
# reference = "perf_event_open(2)"
# success = "an event of all processes is open"
# needs = ["root"]
# control = { touches = "opens a counter for a moment" }
# refusal = { default = "errno" }
# ///

import ctypes

from kit import attempt, succeeded, syscall

attributes = (ctypes.c_uint32 * 32)(1, 128, 0)  # PERF_TYPE_SOFTWARE, size, PERF_COUNT_SW_CPU_CLOCK
attempt(lambda: syscall("perf_event_open", attributes, -1, 0, -1, 0), "EACCES", "EPERM")
succeeded()
