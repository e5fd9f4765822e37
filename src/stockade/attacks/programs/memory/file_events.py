# /// attack
# guarantee = "memory"
# summary = "Watches a folder many times, has things happen in it, and reads no event."
# reference = "inotify(7)"
# success = "twice the limit lies in events"
# needs = ["cgroup-memory"]
# policy = { limits = { memory = "24MiB", open_files = 256 } }
# refusal = { process = "errno EPERM", default = "limit memory | errno ENOMEM" }
# ///

import fcntl
import os
import tempfile
import termios
import time

from kit import attempt, check, libc, refused, succeeded

EVENTS, WATCHERS, WANTED, IN_ATTRIB = 16000, 12, 48 << 20, 4
c = libc()
folder = tempfile.mkdtemp()
names = [os.path.join(folder, letter * 250) for letter in "ab"]
for name in names:
    open(name, "w").close()
watchers = [attempt(lambda: check(c.inotify_init1(0)), "EPERM") for _ in range(WATCHERS)]
for watcher in watchers:
    check(c.inotify_add_watch(watcher, folder.encode(), IN_ATTRIB))
deadline = time.monotonic() + 5
for number in range(EVENTS):
    os.utime(names[number % 2])
    if time.monotonic() > deadline:
        break  # the kernel looks for memory before it drops an event, and takes long
held = sum(int.from_bytes(fcntl.ioctl(watcher, termios.FIONREAD, bytes(4)), "little") for watcher in watchers)
if held >= WANTED:
    succeeded(held)
refused(f"ENOMEM: events were dropped, {held} bytes are held")
