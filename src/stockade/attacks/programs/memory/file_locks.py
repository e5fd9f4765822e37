# /// attack
# guarantee = "memory"
# summary = "Locks byte after byte of many files: no control group counts the memory of a lock."
# reference = "fcntl(2): F_SETLK; fs/locks.c: file_lock_cache"
# success = "a hundred thousand locks are held, for which the kernel needs more than the limit"
# policy = { limits = { memory = "24MiB", open_files = 256, cpu_time = 15 } }
# refusal = { default = "limit memory" }
# ///

import fcntl
import tempfile
import time

from kit import succeeded

FILES, LOCKS = 50, 2000
kept = []
for _ in range(FILES):
    kept.append(tempfile.TemporaryFile())
    for at in range(LOCKS, 0, -1):
        fcntl.lockf(kept[-1], fcntl.LOCK_EX, 1, 2 * at)
time.sleep(0.5)
succeeded(FILES * LOCKS)
