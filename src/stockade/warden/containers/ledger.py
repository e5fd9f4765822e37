"""The ledger of containers: one file in the folder of each run, written before its container is made.

Whoever finds a ledger whose owner is dead removes the container, and then the folder. A container is removed only if
the engine shows the run's token, and the owner, in its labels: nobody else can know the token.
"""

from __future__ import annotations

import os
import time

from stockade.linux import files, places
from stockade.linux.engine_api import EngineError, ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LABEL = "stockade"
"""The prefix of the labels of a container: ``stockade.token``, ``stockade.boot`` and ``stockade.owner``."""
PREFIX = f"{places.PREFIX}container-"
_LEDGER = "ledger"
_GONE = 404
_BUSY_SECONDS, _ASK_SECONDS = 0.2, 60.0


def folder_of(token: str) -> str:
    """Return the path of the folder of a run."""
    return f"{places.FOLDER}/{PREFIX}{token}"


def name_of(token: str) -> str:
    """Return the name of the run's container."""
    return f"{places.PREFIX}{token}"


def identity(pid: int) -> str:
    """Return what identifies a process on this host since its boot: PID namespace, pid and start time (proc(5)).

    The text is empty for a dead process, whether or not its parent has reaped it.
    """
    fields = files.read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if not fields or fields[0] in "ZX":
        return ""
    return f"{os.stat('/proc/self/ns/pid').st_ino}-{pid}-{fields[19]}"


def boot() -> str:
    """Return the id of the host's boot."""
    return files.read("/proc/sys/kernel/random/boot_id").strip()


def labels(token: str, owner: str) -> dict[str, str]:
    """Return the labels of the container of the run ``token``."""
    return {f"{LABEL}.token": token, f"{LABEL}.boot": boot(), f"{LABEL}.owner": owner}


def write(token: str, socket: str, owner: str) -> None:
    """Write the ledger of the run ``token``, whose container the engine behind ``socket`` makes next."""
    fd = os.open(f"{folder_of(token)}/{_LEDGER}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, "\n".join((socket, boot(), owner)).encode())
    finally:
        os.close(fd)


def sweep() -> None:
    """Remove the containers of dead owners, with their folders. What cannot be removed now stays for the next time."""
    for name in os.listdir(places.FOLDER):
        token = name.removeprefix(PREFIX)
        if token == name:
            continue
        try:
            _sweep(token)
        except (OSError, ValueError, EngineError):
            continue  # for example, its engine is not running


def _sweep(token: str) -> None:
    folder = folder_of(token)
    status = os.lstat(folder)
    if status.st_uid != os.geteuid():
        return
    if not os.path.exists(f"{folder}/{_LEDGER}"):  # its owner died just as it made the folder, or is about to write
        if time.time() > status.st_mtime + _ASK_SECONDS:
            places.remove(folder)
        return
    socket, booted, owner = files.read(f"{folder}/{_LEDGER}").split("\n")
    if booted == boot() and not _is_dead(owner):
        return
    remove(token, socket, {f"{LABEL}.token": token, f"{LABEL}.boot": booted, f"{LABEL}.owner": owner})
    places.remove(folder)


def _is_dead(owner: str) -> bool:
    """Return whether the process ``owner`` is dead. One of another PID namespace cannot be judged from here."""
    space, pid, _ = owner.split("-")
    if int(space) != os.stat("/proc/self/ns/pid").st_ino:
        return False
    return identity(int(pid)) != owner


def remove(token: str, socket: str, expected: dict[str, str]) -> None:
    """Remove the run's container, dead or alive, if its labels are the ``expected`` ones. It may be gone already."""
    deadline = time.monotonic() + _ASK_SECONDS
    name = name_of(token)
    while True:
        try:
            found: Any = ask(socket, "GET", f"/containers/{name}/json")
            have = found["Config"]["Labels"] or {}
            if any(have.get(key) != value for key, value in expected.items()):
                return  # not ours, whatever its name
            ask(socket, "DELETE", f"/containers/{name}?force=1&v=1", seconds=_ASK_SECONDS)
            return
        except EngineError as error:
            if error.status == _GONE:
                return
            if time.monotonic() > deadline or error.status == 0:
                raise
        time.sleep(_BUSY_SECONDS)  # a removal is under way, or something holds the container's files
