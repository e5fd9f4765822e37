# /// attack
# guarantee = "disk"
# summary = "Looks for a place to write that is not one of the three it was given."
# reference = "mount_namespaces(7)"
# success = "a file can be made somewhere else"
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import could_not_run, refused, refused_with, succeeded

GIVEN = ("/tmp", "/dev/shm", os.getcwd())
places = set()
with open("/proc/self/mountinfo") as mounts:
    places.update(line.split()[4] for line in mounts)
for folder, folders, _ in os.walk("/"):
    depth = folder.count("/")
    places.add(folder)
    if depth >= 3 or folder.startswith("/proc/"):
        del folders[:]
tried = 0
for place in sorted(places):
    if any(place == given or place.startswith(given + "/") for given in GIVEN) or not os.path.isdir(place):
        continue
    tried += 1
    name = f"{place}/{os.environ['ATTACK_MARKER']}"
    made = not refused_with(
        lambda: os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)), "EROFS", "EACCES", "ENOENT", "EPERM"
    )
    if made:
        os.unlink(name)
        succeeded(place)
if tried < 10:
    could_not_run(f"only {tried} places were found")
refused(f"{tried} places")
