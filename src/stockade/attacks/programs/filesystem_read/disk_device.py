# /// attack
# guarantee = "filesystem_read"
# summary = "Reads the disk itself."
# reference = "sd(4)"
# success = "a block of the root file system's device is read"
# stage = ["device"]
# needs = ["root", "disk-device"]
# control = { touches = "opens the disk for reading and reads its first block" }
# refusal = { process = "errno", default = "errno ENOENT" }
# ///

import os

from kit import attempt, could_not_run, refused, succeeded, target

number = os.makedev(*map(int, target("DEVICE").split(":")))
for folder, _, names in os.walk("/dev"):
    for name in names:
        path = f"{folder}/{name}"
        status = os.lstat(path)
        if (status.st_mode & 0o170000) == 0o060000:
            if status.st_rdev != number:
                continue
            fd = os.open(path, os.O_RDONLY)
            if len(os.read(fd, 512)) == 512:
                succeeded(path)
            could_not_run(path)
attempt(lambda: os.open("/dev/vda", os.O_RDONLY), "ENOENT", "EACCES")
refused("no block device")
