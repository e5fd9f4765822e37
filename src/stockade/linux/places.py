"""Create folders of the host for runs, and remove them with everything that a guest has left there."""

from __future__ import annotations

import os
import stat

from stockade.linux import kill_switch

FOLDER = "/tmp"
PREFIX = "stockade-"
STATE = "/run/stockade"
"""The folder where callers that are root keep shared state."""


def name(token: str) -> str:
    """Return a path for a folder of this process. The token must be unguessable."""
    return f"{FOLDER}/{PREFIX}{_pids()}-{os.getpid()}-{token}"


def own_in(path: str) -> str:
    """Return the folder of stockade's own that lies in ``path`` or contains it; an empty text if none
    does.
    """
    for own in (STATE, os.path.dirname(kill_switch.own_path(os.geteuid()))):
        if f"{own}/".startswith(f"{path}/") or path.startswith(f"{own}/"):
            return own
    if path == FOLDER:
        return f"{FOLDER}/{PREFIX}*"
    top = path.removeprefix(f"{FOLDER}/{PREFIX}").partition("/")[0]
    is_of_a_run = top != path and [part.isdigit() for part in top.split("-")[:2]] == [True, True]
    return f"{FOLDER}/{PREFIX}{top}" if is_of_a_run else ""


def remove(path: str) -> bool:
    """Remove a folder and all below it; return whether it is gone. No process may work there any more.

    The function follows no link. Depth and number of the guest's files do not matter: deeper folders first move to the
    top, so one descriptor is enough and nothing recurses.
    """
    try:
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        _empty(top)
        os.rmdir(path)
    except OSError:
        return False
    finally:
        os.close(top)
    return True


def reclaim(folder: str, owner: int) -> int:
    """Remove the folders in ``folder`` whose callers are gone; return their number.

    The name shows the caller: ``stockade-PIDS-PID-TOKEN``, where PIDS is the number of its PID namespace.
    """
    count, own = 0, f"{PREFIX}{_pids()}-"
    for name in os.listdir(folder):
        pid = name.removeprefix(own).partition("-")[0]
        if not (name.startswith(own) and pid.isdigit()) or os.path.exists(f"/proc/{pid}"):
            continue
        try:
            if os.lstat(f"{folder}/{name}").st_uid == owner:
                count += remove(f"{folder}/{name}")
        except OSError:
            pass  # another process removed it first
    return count


def _pids() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _empty(top: int) -> None:
    """Empty the folder. Each round may move deeper folders to the top, so the next round lists again."""
    moved = 0
    while names := os.listdir(top):
        for name in names:
            if not stat.S_ISDIR(os.lstat(name, dir_fd=top).st_mode):
                os.unlink(name, dir_fd=top)
                continue
            inner = _open(name, top)
            try:
                moved = _lift(inner, top, moved)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)


def _open(name: str, folder: int) -> int:
    """Open a folder that a guest may have closed to its owner.

    The function goes through a descriptor: the name may lead elsewhere by now, if a process has outlived its run.
    """
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)
        return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(found)


def _lift(inner: int, top: int, moved: int) -> int:
    for name in os.listdir(inner):
        if not stat.S_ISDIR(os.lstat(name, dir_fd=inner).st_mode):
            os.unlink(name, dir_fd=inner)
            continue
        os.close(_open(name, inner))  # a move writes the folder's own "..", so it must be writable
        while True:
            moved += 1
            try:
                os.rename(name, f".{moved}", src_dir_fd=inner, dst_dir_fd=top)
                break
            except OSError:  # a guest has already used this name
                if not os.path.lexists(f"/proc/self/fd/{top}/.{moved}"):
                    raise
    return moved
