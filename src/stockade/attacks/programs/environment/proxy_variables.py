# /// attack
# guarantee = "environment"
# summary = "Looks in its environment for a proxy, with its password, and for the sockets of agents."
# reference = "http_proxy in curl(1)"
# success = "the secret is there"
# stage = ["caller_proxy"]
# observe = ["secret"]
# refusal = { default = "errno" }
# ///

import os
import urllib.request

from kit import could_not_run, has_secret, refused, succeeded

if has_secret(repr(urllib.request.getproxies()) + repr([os.environ.get(n) for n in ("SSH_AUTH_SOCK", "DOCKER_HOST")])):
    succeeded()
if urllib.request.getproxies():
    could_not_run("there is another proxy")
refused("no proxy, no agent")
