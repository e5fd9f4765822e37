"""The supervisor's side of a filter built with ``notify=True``: learn which call was refused, and refuse it.

The supervisor always answers with an errno. It never lets a call continue: memory behind the call's pointers may change
between the check and the call, so "continue" would be no check at all.
"""

from __future__ import annotations

import errno
import fcntl
import struct

from stockade.core.record import Record
from stockade.linux.seccomp.install import notification_sizes

# linux/seccomp.h: _IOWR('!', 0, struct seccomp_notif), _IOWR('!', 1, struct seccomp_notif_resp),
# _IOW('!', 2, __u64)
_RECEIVE = 0xC050_2100
_SEND = 0xC018_2101
_IS_VALID = 0x4008_2102

_NOTICE = struct.Struct("<QIIiIQ6Q")  # id, pid, flags, then seccomp_data: nr, arch, ip, args
_REPLY = struct.Struct("<QqiI")  # id, val, error, flags


class Notification(Record):
    """A call that waits for an answer.

    `pid` is the calling thread, as the supervisor's PID namespace sees it (0 if it is not visible there).
    `audit` is the AUDIT_ARCH_* value of the entry used. Pointers among `args` must not be trusted.
    """

    id: int
    pid: int
    nr: int
    audit: int
    args: tuple[int, ...]


_sizes: list[tuple[int, int]] = []


def receive(listener: int) -> Notification | None:
    """Wait for the next call; return None if its caller was killed or interrupted in the meantime.

    The listener polls readable when a call waits, and reports a hang-up once no process uses the filter.
    """
    buffer = bytearray(_struct_sizes()[0])
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except FileNotFoundError:
        return None
    id_, pid, _, nr, audit, _, *args = _NOTICE.unpack_from(buffer)
    return Notification(id=id_, pid=pid, nr=nr, audit=audit, args=tuple(args))


def is_waiting(listener: int, notification: Notification) -> bool:
    """Return whether the call still waits. If so, anything read about `pid` until now belongs to the same process."""
    try:
        fcntl.ioctl(listener, _IS_VALID, struct.pack("<Q", notification.id))
    except FileNotFoundError:
        return False
    return True


def refuse(listener: int, notification: Notification, code: int = errno.EPERM) -> bool:
    """Make the call fail with errno `code`; return False if the caller is gone or was interrupted."""
    if code <= 0:
        raise ValueError(f"a refusal needs an errno above zero, not {code}")
    buffer = bytearray(_struct_sizes()[1])
    _REPLY.pack_into(buffer, 0, notification.id, 0, -code, 0)
    try:
        fcntl.ioctl(listener, _SEND, buffer)
    except FileNotFoundError:
        return False
    return True


def _struct_sizes() -> tuple[int, int]:
    """Return the sizes of a notice and of a reply. The kernel is asked only once."""
    if not _sizes:
        notice, reply = notification_sizes()
        _sizes.append((max(notice, _NOTICE.size), max(reply, _REPLY.size)))
    return _sizes[0]
