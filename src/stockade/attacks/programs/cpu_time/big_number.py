# /// attack
# guarantee = "cpu_time"
# summary = "Raises a number to a power with a hundred million digits: one operation, without a turn of a loop."
# reference = "CWE-400"
# success = "it is still at it after three seconds"
# control = { success = "alive", seconds = 3 }
# policy = { limits = { cpu_time = 0.5 } }
# refusal = { default = "limit cpu_time" }
# ///

10 ** (10**8 * int("1"))
