"""The sockets of sandboxes with a name: one for each, in a folder of the user's that no sandbox shows.

A request is a byte with the client's three standard streams, and one line of JSON. The answer is one line of JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stockade.core.errors import JobError, StockadeError
from stockade.linux import kill_switch

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_SUFFIX = ".sock"
_LONGEST = 8 << 20
_ANSWER_SECONDS = 5.0
_WORK_SECONDS = 1200.0
"""Longer than a fork or a snapshot may take."""


def folder() -> Path:
    """Return the folder of this user's sockets, beside the kill switch."""
    return Path(kill_switch.own_path(os.geteuid())).parent / "sandboxes"


def checked_name(name: str) -> str:
    """Return the name of a sandbox. Raises ``JobError`` unless it is a plain word."""
    if not _NAME.fullmatch(name):
        raise JobError(
            f"{name!r:.80}: the name of a sandbox has letters, digits, '.', '_' and '-', and at most 40 of them"
        )
    return name


def listen(name: str) -> socket.socket:
    """Take a name. Raises ``JobError`` if a sandbox has it."""
    place = folder()
    place.parent.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, exist_ok=True)
    place.mkdir(mode=0o700, exist_ok=True)
    _check_folder(place)
    path = place / (name + _SUFFIX)
    with _locked(place):
        with suppress(_Gone), _connected(name):
            raise JobError(f"there is a sandbox {name!r} already; 'stockade sandbox close {name}' ends it")
        path.unlink(missing_ok=True)  # of a holder that was killed
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
    return listener


def forget(name: str) -> None:
    """Give a name back."""
    (folder() / (name + _SUFFIX)).unlink(missing_ok=True)


def names() -> list[str]:
    """Return the names of all sandboxes, of which some may have ended."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in folder().glob("*" + _SUFFIX))


def ask(name: str, operation: str, *, seconds: float | None = _WORK_SECONDS, **fields: Any) -> dict[str, Any]:
    """Have the holder of a sandbox do something, and return its answer. Raises ``JobError`` and ``StockadeError``."""
    try:
        with _connected(checked_name(name)) as sock:
            sock.settimeout(seconds)
            socket.send_fds(sock, [b"R"], [0, 1, 2])
            sock.sendall(json.dumps({"operation": operation, **fields}).encode() + b"\n")
            answer: dict[str, Any] = read_line(sock)
    except _Gone:
        raise JobError(f"there is no sandbox {name!r}; 'stockade sandbox ls' lists them") from None
    except (OSError, EOFError, ValueError) as error:
        raise StockadeError(
            f"sandbox {name!r}: its holder gave no answer: the sandbox has ended, or this process is confined in "
            f"another way (a user namespace, no_new_privs, a system-call filter) than the one that created it"
        ) from error
    if "error" in answer:
        raise (JobError if answer["usage"] else StockadeError)(answer["error"])
    return answer


def find(name: str) -> dict[str, Any] | None:
    """Return what a holder says of its sandbox, or ``None`` if it has ended."""
    with suppress(StockadeError):
        return ask(name, "show", seconds=_ANSWER_SECONDS)
    return None


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive a request and the client's standard streams. Raises ``PermissionError`` for another user's."""
    _check_peer(sock)
    _, fds, _, _ = socket.recv_fds(sock, 1, 3)
    for fd in fds:
        os.set_inheritable(fd, False)
    if len(fds) == 3:
        with suppress(EOFError, ValueError, OSError):
            return read_line(sock), fds
    for fd in fds:
        os.close(fd)
    raise ValueError("no request")


def answer(sock: socket.socket, found: dict[str, Any]) -> None:
    """Send an answer. The client may be gone."""
    with suppress(OSError):
        sock.sendall(json.dumps(found).encode() + b"\n")


def read_line(sock: socket.socket) -> Any:
    """Read one line of JSON."""
    data = bytearray()
    while not data.endswith(b"\n"):
        piece = sock.recv(1 << 16)
        if not piece or len(data) > _LONGEST:
            raise EOFError
        data += piece
    return json.loads(data)


def _check_folder(place: Path) -> None:
    """Raise ``JobError`` if another user may have made the folder, or what lies in it."""
    for each, others in ((place.parent, 0o022), (place, 0o077)):
        status = each.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & others:
            raise JobError(f"{each}: others can write there, so they could pose as your sandbox; remove that folder")


class _Gone(Exception):
    """Nothing listens for this name."""


@contextmanager
def _connected(name: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            place = folder()
            _check_folder(place)
            sock.settimeout(_ANSWER_SECONDS)
            sock.connect(str(place / (name + _SUFFIX)))
        except (FileNotFoundError, ConnectionRefusedError):
            raise _Gone from None
        yield sock


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    fd = os.open(place / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _check_peer(sock: socket.socket) -> None:
    """Refuse other users, and every process that is confined in another way than this one: it may be a guest."""
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if uid != os.geteuid() or _confinement(str(pid)) != _confinement("self"):
        raise PermissionError("another user, or a confined process")


def _confinement(pid: str) -> tuple[int, list[str]]:
    """Return the user namespace of a process, whether it can gain privileges, and its system-call filters."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return Path(f"/proc/{pid}/ns/user").stat().st_ino, [line for line in lines if line.startswith(("NoNew", "Seccomp"))]
