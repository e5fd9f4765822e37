"""User namespaces: which ids of the host stand behind the ids inside (user_namespaces(7))."""

from __future__ import annotations

import _socket as socket
import errno
import os

from stockade.linux import libc, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def map_identity(proc: int, inside_uid: int, uid: int, inside_gid: int, gid: int) -> None:
    """Map one uid and one gid into the user namespace that this process has just entered (user_namespaces(7)).

    ``proc`` is the descriptor of a writable proc mount. ``setgroups`` is denied first: the kernel demands this of
    unprivileged writers.
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
"""Limits of one guest: an eighth of the smallest limit that Linux gives an account by default."""


def bound_namespace(proc: int, below: int = 0) -> None:
    """Limit the resources of the user namespace that this process has just entered; needs CAP_SYS_RESOURCE in it.

    The limits are those of namespaces(7). At most ``below`` user namespaces may be created below this one, and only an
    engine needs one. A guest in a namespace of its own would have every capability there, could mount, and could reach
    much of the kernel. The kernel also counts instances and watches of inotify and fanotify for each account, so a
    guest gets only a share of them.
    """
    _bound(proc, "max_user_namespaces", str(below).encode())
    for name, share in _SHARES:
        try:
            _bound(proc, name, share)
        except FileNotFoundError:
            pass  # this kernel lacks the call, or does not count it by namespace


def _bound(proc: int, name: str, most: bytes) -> None:
    fd = os.open(f"sys/user/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        os.write(fd, most)
    finally:
        os.close(fd)


def empty_user_namespace(proc: int, inside: tuple[int, int], uid: int) -> int:
    """Return the descriptor of a user namespace that owns nothing and holds no process.

    ``inside`` is a uid and a gid of the namespace. They stand for the host's ``uid``, or for the caller's ids if
    ``uid`` is 0. ``proc`` is the descriptor of a writable proc mount.

    A child creates the namespace, as a guest would create its own. A process that enters it has every capability over
    what the namespace owns, as that guest would have. Raises ``OSError``.
    """
    ours, theirs = socket.socketpair()
    pid = processes.clone(0)
    if pid == 0:
        try:
            ours.close()
            theirs.sendall(bytes((_enter_own(proc, inside, uid),)))
            theirs.recv(1)  # waits for the parent's end of file, to keep the namespace alive
        finally:
            os._exit(0)
    theirs.close()
    try:
        failed = int.from_bytes(ours.recv(1) or bytes((errno.ECHILD,)), "little")
        if failed:
            raise OSError(failed, f"cannot create a user namespace for guests: {os.strerror(failed)}")
        return os.open(f"{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    finally:
        ours.close()
        os.waitpid(pid, 0)


def _enter_own(proc: int, inside: tuple[int, int], uid: int) -> int:
    """Enter a user namespace of the caller's own; return the errno, or 0."""
    try:
        if uid:
            processes.become(uid, uid)
        processes.set_dumpable(True)  # otherwise /proc/self belongs to root, and no id can be mapped
        libc.unshare(processes.NEW_USER)
        map_identity(proc, inside[0], uid, inside[1], uid)
        bound_namespace(proc)
    except OSError as error:
        return error.errno or errno.EPERM
    return 0


def user_namespace(proc: int, uids: Sequence[tuple[int, int]], gids: Sequence[tuple[int, int]]) -> int:
    """Return the descriptor of a user namespace that maps these uids and gids, ``(inside, outside)``; needs root.

    ``proc`` is the descriptor of a writable proc mount. A child keeps the namespace alive meanwhile.
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
    """Enter a user namespace as its root; needs root. Uid and gid 0, 1, ... inside are ``ids`` of the host."""
    pairs = list(enumerate(ids))
    namespace = user_namespace(proc, pairs, pairs)
    libc.setns(namespace, processes.NEW_USER)
    os.close(namespace)
    processes.become(0, 0)
