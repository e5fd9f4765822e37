# /// attack
# guarantee = "filesystem_write"
# summary = "Changes mode, owner, times and extended attributes of a file that is shown read-only."
# reference = "chmod(2), utimensat(2), setxattr(2); Landlock alone would let all of them pass"
# success = "one of them has changed"
# stage = ["readonly"]
# observe = ["changed"]
# refusal = { process = "denied EPERM", default = "errno" }
# ///

import os

from kit import refused, refused_with, succeeded, target

file = target("READONLY") + "/file"
ways = [
    lambda: os.chmod(file, 0o777),
    lambda: os.chown(file, os.getuid(), os.getgid()),
    lambda: os.utime(file, (1, 1)),
    lambda: os.setxattr(file, "user.changed", b"x"),
    lambda: os.truncate(file, 0),
]
if all(refused_with(way, "EROFS") for way in ways):
    refused("EROFS")
succeeded()
