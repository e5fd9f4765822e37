"""The uid pool: host uids for guests that root starts, one for each run. No two wardens share a uid.

Each uid is claimed by a record lock on one byte of a file that only root can open. The kernel releases the lock when
the warden ends, however it ends (fcntl(2)). Guests of that warden can exist longer, as zombies that their new parent
has not reaped. They count in RLIMIT_NPROC of their uid, so nobody gets such a uid.
"""

from __future__ import annotations

import errno
import fcntl
import os

from stockade.linux import places


class UidPool:
    """Assigns uids to runs, from a configured range."""

    def __init__(self, uids: range) -> None:
        self._uids = uids
        self._free: list[int] = []
        self._occupied: list[int] = []  # claimed here, but processes of an ended warden still have them
        self._next = 0
        os.makedirs(places.STATE, mode=0o700, exist_ok=True)
        self._file = os.open(f"{places.STATE}/uids", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def take(self) -> int:
        """Return a uid that no other run has. Raises ``OSError`` (EAGAIN) if all are in use."""
        if self._free:
            return self._free.pop()
        while self._next < len(self._uids):
            uid = self._uids[self._next]
            self._next += 1
            if not self._claim(uid):
                continue
            if not _has_processes(uid):
                return uid
            self._occupied.append(uid)
        for uid in self._occupied:
            if not _has_processes(uid):
                self._occupied.remove(uid)
                return uid
        raise OSError(errno.EAGAIN, "every uid of STOCKADE_UID_RANGE is in use")

    def _claim(self, uid: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, uid)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            return False
        return True

    def release(self, uid: int) -> None:
        """Make ``uid`` free again: no process runs under it any more. The lock stays for the next run."""
        self._free.append(uid)


def _has_processes(uid: int) -> bool:
    """Return whether any process has this uid, a zombie too (getpriority(2))."""
    try:
        os.getpriority(os.PRIO_USER, uid)
    except ProcessLookupError:
        return False
    return True
