# /// attack
# guarantee = "filesystem_read"
# summary = "Reads what is hidden in a bound project: by name, by link, from below /proc, after its folder was renamed."
# reference = "mount_namespaces(7): what is mounted over a file covers it under each of its folder's names"
# success = "the secret is read"
# stage = ["project"]
# observe = ["secret"]
# refusal = { default = "errno" }
# ///

import os

from kit import has_secret, refused, succeeded, target

folder = target("PROJECT")
os.chdir(folder)
try:
    os.rename("sub", "other")
except OSError:
    pass
names = (".env", "sub/.env", "other/.env")
ways = [prefix + name for prefix in ("", folder + "/", "/proc/self/cwd/") for name in names]
ways += [f"/proc/self/root{folder}/{name}" for name in names]
for way in ways:
    try:
        with open(way, "rb") as file:
            if has_secret(file.read()):
                succeeded(way)
    except OSError:
        continue
refused("it is empty wherever it is looked for")
