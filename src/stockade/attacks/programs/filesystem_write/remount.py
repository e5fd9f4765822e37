# /// attack
# guarantee = "filesystem_write"
# summary = "Remounts read-write what is mounted read-only."
# reference = "CVE-2026-46695; mount(2), MS_REMOUNT"
# success = "the file has changed"
# stage = ["readonly"]
# observe = ["changed"]
# control = { namespaces = ["user", "mount"], readonly = true }
# refusal = { default = "errno" }
# ///

import os

from kit import attempt, mount, succeeded, target

MS_REMOUNT, MS_BIND = 32, 0x1000
place = target("READONLY")
kept = os.statvfs(place).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)  # all that is locked but read-only
attempt(lambda: mount(None, place, None, MS_REMOUNT | MS_BIND | kept), "EPERM")
fd = os.open(place + "/file", os.O_WRONLY)
os.write(fd, b"changed")
succeeded()
