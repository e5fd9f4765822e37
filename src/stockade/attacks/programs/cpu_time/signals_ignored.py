# /// attack
# guarantee = "cpu_time"
# summary = "Spends CPU time with SIGXCPU and every other signal ignored."
# reference = "setrlimit(2): at the soft limit the process gets SIGXCPU, which it may ignore"
# success = "three times the limit is spent"
# policy = { limits = { cpu_time = 0.5 } }
# refusal = { default = "limit cpu_time" }
# ///

import signal
import time

from kit import succeeded

for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
while time.process_time() < 1.5:
    pass
succeeded()
