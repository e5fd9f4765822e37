"""Stages of objects that all processes of a host share: keys, memory segments, message queues, terminals."""

from __future__ import annotations

import ctypes
import os
import pty
import secrets
import tty
from collections.abc import Iterator
from pathlib import Path

from stockade.attacks.world import World, libc

_ADD_KEY, _KEYCTL = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(os.uname().machine, (0, 0))
_SESSION_KEYRING, _JOIN, _REVOKE = -3, 1, 3
_IPC_CREAT, _IPC_EXCL, _IPC_RMID = 0o1000, 0o2000, 0


def key(world: World) -> Iterator[None]:
    """Put a key into the caller's session keyring, before the warden starts."""
    libc.syscall(_KEYCTL, _JOIN, 0)
    payload = world.secret.encode()
    serial = libc.syscall(_ADD_KEY, b"user", world.marker.encode(), payload, len(payload), _SESSION_KEYRING)
    if serial < 0:
        raise OSError(ctypes.get_errno(), "add_key")
    world.environment["ATTACK_KEY"] = str(serial)
    world.fresh_warden = True
    try:
        yield
    finally:
        libc.syscall(_KEYCTL, _REVOKE, serial)


def segment(world: World) -> Iterator[None]:
    """Make a System V shared memory segment, a message queue and a semaphore on the host, open to all."""
    key = secrets.randbelow(1 << 30) + 1
    segment = libc.shmget(key, 4096, _IPC_CREAT | _IPC_EXCL | 0o666)
    queue = libc.msgget(key, _IPC_CREAT | _IPC_EXCL | 0o666)
    semaphore = libc.semget(key, 1, _IPC_CREAT | _IPC_EXCL | 0o666)
    world.environment["ATTACK_IPC_KEY"] = str(key)
    world.environment["ATTACK_SEGMENT"] = str(segment)
    try:
        yield
    finally:
        libc.shmctl(segment, _IPC_RMID, None)
        libc.msgctl(queue, _IPC_RMID, None)
        libc.semctl(semaphore, 0, _IPC_RMID)


def queue(world: World) -> Iterator[None]:
    """Make a POSIX message queue on the host."""
    name = f"/{world.marker}".encode()
    umask = os.umask(0)
    fd = libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o666, None)
    os.umask(umask)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "mq_open")
    try:
        yield
    finally:
        os.close(fd)
        libc.mq_unlink(name)


def terminal(world: World) -> Iterator[None]:
    """Open a terminal on the host that anyone may use."""
    ours, theirs = pty.openpty()
    path = os.ttyname(theirs)
    Path(path).chmod(0o666)
    tty.setraw(theirs)
    os.set_blocking(ours, False)
    world.environment["ATTACK_TERMINAL"] = path

    def shown() -> bool:
        try:
            return bool(os.read(ours, 100))
        except BlockingIOError:
            return False

    world.seen["shown"] = shown
    try:
        yield
    finally:
        os.close(ours)
        os.close(theirs)


def shared_file(world: World) -> Iterator[None]:
    """Make a file in the host's /dev/shm, as POSIX shared memory does."""
    path = Path("/dev/shm") / world.marker
    path.write_text(world.secret, encoding="utf-8")
    path.chmod(0o666)
    try:
        yield
    finally:
        path.unlink()
