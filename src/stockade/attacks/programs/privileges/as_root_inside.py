# /// attack
# guarantee = "privileges"
# summary = "Is uid 0 inside, as its policy lets it, and looks for the capabilities that this uid gets with every program."
# reference = "capabilities(7): execve(2) by uid 0"
# success = "it has one"
# policy = { security = { uid = 0 } }
# control = { namespaces = ["user", "mount"] }
# refusal = { default = "errno" }
# ///

from kit import could_not_run, refused, succeeded

with open("/proc/self/status") as file:
    status = dict(line.rstrip().partition(":\t")[::2] for line in file)
held = {name: int(status[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")}
if held["CapEff"] or held["CapPrm"]:
    succeeded(held)
if any(held.values()):
    could_not_run(held)
refused("none at all")
