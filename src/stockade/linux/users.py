"""User namespaces: whose ids are whose inside of one (user_namespaces(7))."""

from __future__ import annotations

import _socket as socket
import errno
import os

from stockade.linux import libc, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def map_identity(proc: int, inside_uid: int, uid: int, inside_gid: int, gid: int) -> None:
    """Map one uid and one gid into the user namespace just entered (user_namespaces(7)).

    ``proc`` is the descriptor of a writable proc mount. ``setgroups`` is closed first: the kernel demands it
    of unprivileged writers.
    """
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inside_uid} {uid} 1"),
        ("gid_map", f"{inside_gid} {gid} 1"),
    ):
        fd = os.open(f"self/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


_SHARES = (
    ("max_inotify_instances", b"16"),
    ("max_inotify_watches", b"1024"),
    ("max_fanotify_groups", b"16"),
    ("max_fanotify_marks", b"1024"),
)
"""What a guest may take of its account: an eighth of the least that Linux allows an account by default."""


def bound_namespace(proc: int) -> None:
    """Bound what the user namespace just entered may hold (namespaces(7)); needs CAP_SYS_RESOURCE in it.

    No user namespace may be made below it: a guest that makes one would have every capability in it, could mount, and
    could reach much of the kernel. Instances and watches of inotify and fanotify, which the kernel counts for the
    account as well, are bounded to a share.
    """
    _bound(proc, "max_user_namespaces", b"0")
    for name, share in _SHARES:
        try:
            _bound(proc, name, share)
        except FileNotFoundError:
            pass  # this kernel does not have the call, or does not count it by namespace


def _bound(proc: int, name: str, most: bytes) -> None:
    fd = os.open(f"sys/user/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        os.write(fd, most)
    finally:
        os.close(fd)


def nobodys(proc: int, inside: tuple[int, int], uid: int) -> int:
    """Return the descriptor of a user namespace that owns nothing and nobody is in. ``inside``, a uid and a gid, are
    ``uid`` there, or who the caller is where that is 0.

    A child makes it as a guest would that has one of its own. Who enters it has every capability, as that guest would,
    over what the namespace owns. ``proc`` is the descriptor of a writable proc mount. Raises ``OSError``.
    """
    ours, theirs = socket.socketpair()
    pid = processes.clone(0)
    if pid == 0:
        try:
            ours.close()
            theirs.sendall(bytes((_enter_own(proc, inside, uid),)))
            theirs.recv(1)  # nothing: it is held for as long as the parent takes
        finally:
            os._exit(0)
    theirs.close()
    try:
        failed = int.from_bytes(ours.recv(1) or bytes((errno.ECHILD,)), "little")
        if failed:
            raise OSError(failed, f"a user namespace for guests: {os.strerror(failed)}")
        return os.open(f"{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    finally:
        ours.close()
        os.waitpid(pid, 0)


def _enter_own(proc: int, inside: tuple[int, int], uid: int) -> int:
    """Do so, and return the number of the error, or 0."""
    try:
        if uid:
            processes.become(uid, uid)
        processes.set_dumpable(True)  # or /proc/self belongs to root and ids cannot be mapped
        libc.unshare(processes.NEW_USER)
        map_identity(proc, inside[0], uid, inside[1], uid)
        bound_namespace(proc)
    except OSError as error:
        return error.errno or errno.EPERM
    return 0


def user_namespace(proc: int, uids: Sequence[tuple[int, int]], gids: Sequence[tuple[int, int]]) -> int:
    """Return the descriptor of a user namespace with these uids and gids mapped, ``(inside, outside)``; needs root.

    ``proc`` is the descriptor of a writable proc mount. A child holds the namespace for as long as it takes.
    """
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = processes.clone(processes.NEW_USER)
    if pid == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    try:
        for name, ids in (("uid_map", uids), ("gid_map", gids)):
            fd = os.open(f"{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
            try:
                os.write(fd, "".join(f"{inside} {outside} 1\n" for inside, outside in ids).encode())
            finally:
                os.close(fd)
        return os.open(f"{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    finally:
        os.close(write)
        os.waitpid(pid, 0)


def enter_users(proc: int, ids: Sequence[int]) -> None:
    """Enter a user namespace, as its root, in which uid and gid 0, 1, ... are ``ids`` of the host; needs root."""
    pairs = list(enumerate(ids))
    namespace = user_namespace(proc, pairs, pairs)
    libc.setns(namespace, processes.NEW_USER)
    os.close(namespace)
    processes.become(0, 0)
