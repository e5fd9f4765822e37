# /// attack
# guarantee = "filesystem_read"
# summary = "Takes mounts away, in a new user namespace if need be, to see what they hide."
# reference = "mount_namespaces(7): mounts of a more privileged namespace are locked together"
# success = "a mount is taken away"
# control = { namespaces = ["mount"] }
# needs = ["root"]
# refusal = { process = "denied EACCES", default = "errno" }
# ///

import os

from kit import CLONE_NEWNS, attempt, check, could_not_run, libc, new_user_namespace, refused, refused_with, succeeded

MNT_DETACH = 2
with open("/proc/self/mountinfo") as file:
    points = [line.split()[4] for line in file]
points = [point for point in points if point != "/"]
if not points:
    could_not_run("there are no mounts")


def unmount_any(*errors):
    for point in reversed(points):
        if not refused_with(lambda: check(libc().umount2(point.encode(), MNT_DETACH)), *errors):
            succeeded(point)


unmount_any("EPERM")
if os.getuid() != 0:
    new_user_namespace(CLONE_NEWNS)
    unmount_any("EPERM", "EINVAL")
    # A copy of the root without what is mounted on it would show what lies beneath.
    attempt(lambda: check(libc().mount(b"/", b"/tmp", None, 0x1000, None)), "EPERM", "EINVAL")
    succeeded("the root without its mounts")
refused()
