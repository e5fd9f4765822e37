# /// attack
# guarantee = "filesystem_read"
# summary = "Has a file brought out that only the caller may read, from a project that it shares."
# reference = "credentials(7)"
# success = "a collector with its caller's rights brings out the secret"
# stage = ["project_private"]
# needs = ["root"]
# observe = ["secret"]
# artifacts = ["answer"]
# control = { success = "status 0", collector = "take" }
# refusal = { default = "verdict completed" }
# ///

import os

os._exit(0)
