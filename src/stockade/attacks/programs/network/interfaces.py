# /// attack
# guarantee = "network"
# summary = "Lists the host's network interfaces over netlink and in /proc."
# reference = "rtnetlink(7)"
# success = "one of the host's interfaces is in the list"
# stage = ["interface"]
# control = { touches = "reads the list of network interfaces" }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import socket

from kit import could_not_run, refused, succeeded, target

theirs = set(target("INTERFACES").split(",")) - {"", "sit0", "tunl0", "ip6tnl0", "gre0", "gretap0", "erspan0"}
mine = {name for _, name in socket.if_nameindex()}
with open("/proc/net/dev") as file:
    mine |= {line.partition(":")[0].strip() for line in file if ":" in line}
if not theirs:
    could_not_run("the host has no interface but loopback")
if mine & theirs:
    succeeded(sorted(mine & theirs))
if "lo" not in mine:
    could_not_run("not even a loopback")
refused("nothing but its own loopback")
