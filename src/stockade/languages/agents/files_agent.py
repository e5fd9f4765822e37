"""Reads and writes files inside a sandbox for the caller, as the guest's user and within the guest's limits.

The kernel resolves every path in the sandbox, so no path can lead outside. The guest may change anything at any moment:
every file is opened first and judged by its descriptor, nothing here waits for another process, and sizes have bounds.
One request at a time: a frame ``Q`` (JSON), for ``write`` then frames ``b`` and ``E``. The answer is frames ``b``, then
``=`` (JSON) or ``x`` (an error, JSON). Python 3.8 or newer, standard library only.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PIECE = 256 * 1024
_OPEN = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


class Refused(Exception):
    """A file that is not what the operation needs."""


def take(size: int) -> bytes:
    """Read from the caller. At its end, this process ends."""
    data = bytearray()
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            sys.exit()
        data += piece
    return bytes(data)


def receive() -> tuple[bytes, bytes]:
    """Return the next frame of the caller."""
    head = take(5)
    return head[:1], take(int.from_bytes(head[1:], "big"))


def send(kind: bytes, payload: bytes) -> None:
    """Send a frame."""
    view = memoryview(kind + len(payload).to_bytes(4, "big") + payload)
    while view:
        view = view[os.write(1, view) :]


def regular(path: str, flags: int, mode: int = 0) -> int:
    """Open a regular file; refuse all else without waiting for it."""
    fd = os.open(path, flags | _OPEN, mode)
    kind = stat.S_IFMT(os.fstat(fd).st_mode)
    if kind != stat.S_IFREG:
        os.close(fd)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise Refused("it is not a regular file")
    return fd


def info(path: str, found: os.stat_result) -> dict[str, Any]:
    """Return what ``stat`` reports."""
    return {
        "path": path,
        "kind": _KINDS.get(stat.S_IFMT(found.st_mode), "other"),
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "modified": found.st_mtime,
    }


def read(path: str, longest: int) -> dict[str, Any]:
    """Send the content of a file, if it is not longer than the caller takes."""
    fd = regular(path, os.O_RDONLY)
    try:
        total = 0
        while True:
            data = os.read(fd, _PIECE)
            if not data:
                return {"size": total}
            total += len(data)
            if total > longest:
                raise Refused(f"it is longer than {longest} bytes")
            send(b"b", data)
    finally:
        os.close(fd)


def draft_for(path: str, parents: bool) -> tuple[int, str, str, int]:
    """Open a new file beside ``path``: return its descriptor and path, the path to move it to, and the mode to set."""
    mode = 0o644
    if parents and os.path.dirname(path):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except FileExistsError:  # something else has its name
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
    path = os.path.realpath(path) if os.path.islink(path) else path
    folder, name = os.path.split(path)
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        pass
    else:
        if stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(there.st_mode):
            raise Refused("it is not a regular file")
        if not os.access(path, os.W_OK):  # it is replaced, which the right to its folder would be enough for
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        mode = stat.S_IMODE(there.st_mode)
    if not name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    draft = os.path.join(folder, ".stockade-" + os.urandom(8).hex())
    return os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | _OPEN, 0o600), draft, path, mode


def write(path: str, parents: bool) -> dict[str, Any]:
    """Write a new file beside ``path`` and move it there: nothing that lies at ``path`` is ever opened."""
    problem: Exception | None = None
    fd = -1
    try:
        fd, draft, path, mode = draft_for(path, parents)
    except (OSError, Refused) as error:
        problem = error
    total = 0
    while True:  # take all of the content even if there is a problem, so that the next request begins at its start
        kind, data = receive()
        if kind == b"E":
            break
        view = memoryview(data)
        while view and problem is None:
            try:
                count = os.write(fd, view)
                view, total = view[count:], total + count
            except OSError as error:
                problem = error
    try:
        if problem is not None:
            raise problem
        os.fchmod(fd, mode)
        os.rename(draft, path)
        fd, done = -1, fd
        os.close(done)
        return {"size": total}
    finally:
        if fd >= 0:
            os.close(fd)
            os.unlink(draft)


def entries(path: str, most: int) -> dict[str, Any]:
    """Send the entries of a folder, if there are not more than the caller takes."""
    with os.scandir(path or ".") as found:
        count = 0
        for entry in found:
            count += 1
            if count > most:
                raise Refused(f"it has more than {most} entries")
            try:
                send(b"b", json.dumps(info(entry.name, entry.stat(follow_symlinks=False))).encode())
            except FileNotFoundError:
                continue  # it is gone since
    return {}


def remove(path: str, recursive: bool) -> dict[str, Any]:
    """Remove a file, a link or a folder."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
    elif recursive:
        import shutil

        shutil.rmtree(path)
    else:
        os.rmdir(path)
    return {}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out one request."""
    operation, path = request["operation"], request["path"]
    if operation == "read":
        return read(path, request["longest"])
    if operation == "write":
        return write(path, request["parents"])
    if operation == "list":
        return entries(path, request["most"])
    if operation == "stat":
        return info(path, os.stat(path) if request["follow"] else os.lstat(path))
    if operation == "make_dir":
        os.makedirs(path, exist_ok=request["exist_ok"])
    elif operation == "rename":
        os.rename(path, request["target"])
    elif operation == "remove":
        return remove(path, request["recursive"])
    return {}


def main() -> None:
    """Answer requests until the caller is gone."""
    while True:
        _, payload = receive()
        request = json.loads(payload)
        try:
            send(b"=", json.dumps(answer(request)).encode())
        except OSError as error:
            send(b"x", json.dumps({"errno": error.errno or 0}).encode())
        except (Refused, ValueError, RecursionError, MemoryError) as error:
            send(b"x", json.dumps({"errno": 0, "reason": str(error) or type(error).__name__}).encode())


if __name__ == "__main__":
    main()
