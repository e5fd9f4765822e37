"""Host uids for guests that root starts: one for each run, from a configured range, never shared by two wardens.

A lease is a record lock on one byte of a file that only root can open; the kernel lets go of it when the
warden ends, however it ends (fcntl(2)).
"""

from __future__ import annotations

import errno
import fcntl
import os

from stockade.linux import places


class UidPool:
    """Hands out uids and takes them back."""

    def __init__(self, uids: range) -> None:
        self._uids = uids
        self._free: list[int] = []
        self._next = 0
        os.makedirs(places.STATE, mode=0o700, exist_ok=True)
        self._file = os.open(f"{places.STATE}/uids", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def take(self) -> int:
        """Return a uid that nobody else has."""
        if self._free:
            return self._free.pop()
        while self._next < len(self._uids):
            uid = self._uids[self._next]
            self._next += 1
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, uid)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            else:
                return uid
        raise OSError(errno.EAGAIN, "every uid of STOCKADE_UID_RANGE is in use")

    def release(self, uid: int) -> None:
        """Take ``uid`` back: nothing runs under it any more. The lock is kept for the next run."""
        self._free.append(uid)
