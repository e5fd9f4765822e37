# /// attack
# guarantee = "filesystem_write"
# summary = "Remounts read-write in a new user and mount namespace, with every capability in it."
# reference = "mount_namespaces(7): flags of a more privileged namespace's mounts are locked"
# success = "the file has changed"
# stage = ["readonly"]
# observe = ["changed"]
# control = { namespaces = ["user", "mount"], readonly = true }
# confined = { ATTACK_NESTED = "1" }
# refusal = { default = "errno" }
# ///

import os

from kit import CLONE_NEWNS, attempt, mount, new_user_namespace, succeeded, target

MS_REMOUNT, MS_BIND = 32, 0x1000
place = target("READONLY")
if "ATTACK_NESTED" in os.environ:
    new_user_namespace(CLONE_NEWNS)
kept = os.statvfs(place).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)  # all that is locked but read-only
attempt(lambda: mount(None, place, None, MS_REMOUNT | MS_BIND | kept), "EPERM")
fd = os.open(place + "/file", os.O_WRONLY)
os.write(fd, b"changed")
succeeded()
