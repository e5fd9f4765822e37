# /// attack
# guarantee = "filesystem_read"
# summary = "Hopes that a sandbox whose walls cannot be built is no sandbox at all: that its code runs all the same."
# reference = "GHSA-6jcq-6546-qrrw: missing isolation fell back to plain execution"
# success = "the secret is read"
# stage = ["canary", "no_walls"]
# observe = ["secret"]
# refusal = { default = "not started" }
# ///

import os

from kit import has_secret, succeeded, target

fd = os.open(target("CANARY"), os.O_RDONLY)
if has_secret(os.read(fd, 100)):
    succeeded()
