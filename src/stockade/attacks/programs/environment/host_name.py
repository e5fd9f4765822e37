# /// attack
# guarantee = "environment"
# summary = "Reads the host's name, by which others on the network know it."
# reference = "uname(2), uts_namespaces(7)"
# success = "it is the host's"
# stage = ["host_name"]
# admitted = { process = "the host's name", landlock = "the host's name" }
# refusal = { default = "errno" }
# ///

import os
import socket

from kit import refused, succeeded, target

if target("HOST_NAME") in (os.uname().nodename, socket.gethostname()):
    succeeded()
refused("another name")
