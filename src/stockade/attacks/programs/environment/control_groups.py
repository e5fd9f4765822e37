# /// attack
# guarantee = "environment"
# summary = "Reads where on the host it runs, from the names of its control groups: container, pod, user."
# reference = "cgroup_namespaces(7)"
# success = "the path of a group is not its root"
# needs = ["in-a-group"]
# admitted = { firejail = "the names of the host's control groups" }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

from kit import could_not_run, refused, succeeded

with open("/proc/self/cgroup") as file:
    paths = {line.split(":", 2)[2].strip() for line in file}
if not paths:
    could_not_run("no groups")
if paths != {"/"}:
    succeeded(sorted(paths))
refused("each is its root")
