# /// attack
# guarantee = "filesystem_read"
# summary = "Reads files of root's home and of every other home."
# reference = "hier(7)"
# success = "a file in a home folder can be read"
# needs = ["root"]
# control = { touches = "opens files of homes for reading" }
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import glob
import os

from kit import refused, refused_with, succeeded

NAMES = (".bashrc", ".profile", ".ssh/id_rsa", ".ssh/id_ed25519", ".aws/credentials", ".netrc", ".gitconfig", ".npmrc")
for home in ("/root", *glob.glob("/home/*")):
    for name in NAMES:
        if not refused_with(lambda: os.close(os.open(f"{home}/{name}", os.O_RDONLY)), "ENOENT"):
            succeeded(f"{home}/{name}")
refused("ENOENT everywhere")
