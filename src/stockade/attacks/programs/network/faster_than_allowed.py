# /// attack
# guarantee = "network"
# summary = "Receives faster than the policy allows."
# reference = "network.rate"
# success = "the bytes come at once"
# stage = ["internet"]
# needs = ["small-internet"]
# policy = { network = { allow = ["example.org:80"], rate = 200000 } }
# refusal = { default = "errno slowed down" }
# ///

import time

from kit import get, refused, succeeded

begin = time.monotonic()
size = len(get("example.org", "/bytes?count=300000"))
seconds = time.monotonic() - begin
if size > 300000 and seconds < 0.8:
    succeeded(seconds)
refused("slowed down")
