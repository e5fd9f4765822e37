# /// attack
# guarantee = "open_files"
# summary = "Opens descriptors as often as it can."
# reference = "setrlimit(2), RLIMIT_NOFILE"
# success = "200 are open"
# policy = { limits = { open_files = 32 } }
# refusal = { default = "errno" }
# ///

import os

from kit import could_not_run, refused, refused_with, succeeded

opened = []
while len(opened) < 200:
    if refused_with(lambda: opened.append(os.dup(1)), "EMFILE"):
        if opened[-1] != 31:
            could_not_run(f"the highest was {opened[-1]}")
        refused(f"EMFILE, the highest is {opened[-1]}")
succeeded()
