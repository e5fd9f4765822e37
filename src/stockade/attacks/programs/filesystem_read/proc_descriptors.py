# /// attack
# guarantee = "filesystem_read"
# summary = "Reopens the files that other processes hold open."
# reference = "proc(5), /proc/pid/fd"
# success = "a file that another process holds is read"
# stage = ["victim"]
# observe = ["secret"]
# refusal = { "native (warm)" = "errno | says the init's descriptors can be listed", bubblewrap = "says the init's descriptors can be listed", oci = "says the init's descriptors can be listed", process = "denied EACCES", default = "errno" }
# ///

import os

from kit import could_not_run, has_secret, refused, succeeded

tried = 0
for pid in (name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()):
    try:
        entries = os.listdir(f"/proc/{pid}/fd")
    except (PermissionError, FileNotFoundError):
        tried += 1
        continue
    for entry in entries:
        path = f"/proc/{pid}/fd/{entry}"
        try:
            if not os.readlink(path).startswith("/") or not os.path.isfile(path):
                continue
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        if has_secret(os.pread(fd, 100, 0)):
            succeeded(path)
        os.close(fd)
    if os.environ["HOME"] == "/tmp" and pid == "1" and os.getuid() == 1000:
        could_not_run("the init's descriptors can be listed")
refused(f"EACCES on {tried} processes")
