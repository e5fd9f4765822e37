# /// attack
# guarantee = "filesystem_read"
# summary = "Makes another folder its root, to be rid of what was laid over the old one."
# reference = "pivot_root(2)"
# success = "the root is another"
# control = { namespaces = ["user", "mount"] }
# refusal = { default = "errno" }
# ///

import os

from kit import CLONE_NEWNS, attempt, mount, new_user_namespace, succeeded, syscall

MS_BIND = 0x1000
if "ATTACK_NESTED" in os.environ:
    new_user_namespace(CLONE_NEWNS)
os.makedirs("r/old")
attempt(lambda: mount(os.getcwd() + "/r", os.getcwd() + "/r", None, MS_BIND), "EPERM")
os.chdir("r")
number = {"x86_64": 155, "aarch64": 41}[os.uname().machine]
attempt(lambda: syscall(number, b".", b"old"), "EPERM")
succeeded()
