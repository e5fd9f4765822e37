# /// attack
# guarantee = "filesystem_write"
# summary = "Changes, deletes and makes files in a project that lies under an overlay."
# reference = "https://docs.kernel.org/filesystems/overlayfs.html"
# success = "the project itself is changed"
# stage = ["project_overlay"]
# observe = ["touched"]
# refusal = { process = "denied EACCES", bubblewrap = "says mounted, but not as an overlay", oci = "says mounted, but not as an overlay", default = "errno" }
# ///

import os

from kit import could_not_run, refused, succeeded, target

folder = target("PROJECT")
os.chdir(folder)
with open("file", "a") as file:
    file.write("changed\n")
with open("new", "w") as file:
    file.write("new\n")
os.rename("new", "newer")
with open("/proc/self/mountinfo") as file:
    mine = [line for line in file if line.split()[4] == folder]
if not mine:
    succeeded()
if " overlay " not in mine[-1]:
    could_not_run("mounted, but not as an overlay")
refused("written to an upper folder")
