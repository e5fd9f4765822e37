"""Sends the files of a sandbox to the caller, or writes such files in a fresh sandbox, as the guest's user.

``take`` runs while all other processes of the sandbox are frozen; ``put`` runs before there are any. Every path is
opened part by part without following a link. Frames: ``d``, ``f``, ``l`` and ``h`` (JSON: a folder, a file, a symbolic
link, a further name of an earlier file), ``b`` (eight bytes of offset, then content of the last file), ``.`` the end.
The answer is ``=`` or ``x`` (JSON). Python 3.8 or newer, standard library only.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PIECE = 256 * 1024
_PIPE = 1 << 20
_F_SETPIPE_SZ = 1031  # fcntl(2); Python knows the name since 3.10
_DEPTH = 128
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Refused(Exception):
    """Files that cannot be copied."""


def take(size: int) -> bytes:
    """Read from the caller. At its end, this process ends."""
    data = bytearray()
    while len(data) < size:
        piece = os.read(0, min(size - len(data), _PIECE))
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


def mount_points() -> set[str]:
    """Return where something is mounted: what lies there belongs to the policy, not to the guest."""
    found = set()
    with open("/proc/self/mountinfo", "rb") as lines:
        for line in lines:
            path = line.split()[4]
            for code, byte in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
                path = path.replace(code, byte)
            found.add(os.fsdecode(path))
    return found


def outer(path: str) -> list[str]:
    """Return the folders above a path."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


def widen(fd: int) -> None:
    """Let a pipe hold more, if the kernel allows that: so caller and agent wait for each other less often."""
    try:
        fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE)
    except OSError:
        pass  # this is not a pipe, or the user's pipes hold too much


class Reader:
    """Sends what lies in the roots."""

    def __init__(self, roots: list[str]) -> None:
        mounted = mount_points() | set(filter(None, roots))
        self.left_out = {path for each in mounted for path in (each, *outer(each))} - set(roots)
        self.roots = roots
        self.first: dict[tuple[int, int], tuple[int, str]] = {}
        self.skipped = 0

    def run(self) -> dict[str, Any]:
        """Send everything."""
        for number, root in enumerate(self.roots):
            if root:
                self.walk(number, root, "", os.open(root, _FOLDER), 0)
        send(b".", b"")
        return {"skipped": self.skipped}

    def walk(self, root: int, place: str, path: str, fd: int, depth: int) -> None:
        """Send the entries of one folder, and close it."""
        if depth > _DEPTH:
            raise Refused(f"{path[:80]!r}: more than {_DEPTH} folders lie in each other")
        try:
            for name in sorted(os.listdir(fd)):
                where, inner = f"{place.rstrip('/')}/{name}", f"{path}/{name}" if path else name
                if where in self.left_out or where in self.roots:
                    continue
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                mode = stat.S_IMODE(found.st_mode) & 0o777
                about = {"in": root, "path": inner, "mode": mode, "at": found.st_mtime_ns}
                if stat.S_ISDIR(found.st_mode):
                    send(b"d", json.dumps(about).encode())
                    closed = found.st_mode & 0o500 != 0o500  # even to the guest itself
                    if closed:
                        os.chmod(name, mode | 0o500, dir_fd=fd)
                    self.walk(root, where, inner, os.open(name, _FOLDER, dir_fd=fd), depth + 1)
                    if closed:
                        os.chmod(name, mode, dir_fd=fd)
                elif stat.S_ISLNK(found.st_mode):
                    target = os.readlink(name, dir_fd=fd)
                    send(b"l", json.dumps({**about, "target": target}).encode())
                elif stat.S_ISREG(found.st_mode):
                    self.file(name, fd, found, about)
                else:
                    self.skipped += 1  # a device, a FIFO or a socket
        finally:
            os.close(fd)

    def file(self, name: str, folder: int, found: os.stat_result, about: dict[str, Any]) -> None:
        """Send one file, or the name of an earlier one."""
        key = found.st_dev, found.st_ino
        if found.st_nlink > 1 and key in self.first:
            send(b"h", json.dumps({**about, "target": self.first[key]}).encode())
            return
        self.first[key] = about["in"], about["path"]
        fd = opened(name, folder, found, _FILE)
        try:
            held = os.fstat(fd)
            if not stat.S_ISREG(held.st_mode):
                raise Refused(f"{about['path'][:80]!r} changed while it was read")
            send(b"f", json.dumps({**about, "size": held.st_size}).encode())
            for begin, end in pieces(fd, held.st_size):
                for at in range(begin, end, _PIECE):
                    data = os.pread(fd, min(_PIECE, end - at), at)
                    if data:
                        send(b"b", at.to_bytes(8, "big") + data)
        finally:
            os.close(fd)


def opened(name: str, folder: int, found: os.stat_result, flags: int) -> int:
    """Open one of the guest's files, even if its mode denies that to the guest itself."""
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        mode = stat.S_IMODE(found.st_mode)
        os.chmod(name, mode | 0o700, dir_fd=folder)
        try:
            return os.open(name, flags, dir_fd=folder)
        finally:
            os.chmod(name, mode, dir_fd=folder)


def pieces(fd: int, size: int) -> list[tuple[int, int]]:
    """Return begin and end of each part of a file that holds data."""
    found, at = [], 0
    while at < size:
        try:
            begin = os.lseek(fd, at, os.SEEK_DATA)
            at = min(os.lseek(fd, begin, os.SEEK_HOLE), size)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: nothing but a hole follows
                found.append((at, size))
            break
        found.append((begin, at))
    return found


class Writer:
    """Writes what the caller sends into the roots, and removes what else lies there."""

    def __init__(self, roots: list[str]) -> None:
        self.roots, self.mounted = roots, mount_points() - set(roots)
        self.fds = [os.open(root, _FOLDER) if root else -1 for root in roots]
        self.seen: set[tuple[int, str]] = set()
        self.folders: list[tuple[int, str, int, int]] = []
        self.fd = -1
        self.about: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        """Write everything. Take all frames even after a problem, so that the caller can send them."""
        problem: BaseException | None = None
        while True:
            kind, payload = receive()
            if kind == b".":
                break
            if problem is None:
                try:
                    self.one(kind, payload)
                except (OSError, Refused, ValueError) as error:
                    problem = error
        if problem is not None:
            raise problem
        self.finish()
        for number, root in enumerate(self.roots):
            if root:
                self.prune(number, root, "", os.dup(self.fds[number]))
        for number, path, mode, at in reversed(self.folders):
            fd, name = self.parent(number, path)
            try:
                os.utime(name, ns=(at, at), dir_fd=fd, follow_symlinks=False)
                os.chmod(name, mode, dir_fd=fd)
            except PermissionError:
                pass  # it was there, and belongs to the sandbox
            os.close(fd)
        return {}

    def parent(self, root: int, path: str) -> tuple[int, str]:
        """Open the folder that holds ``path``, following no link; return it and the last part of the path."""
        *outer, name = path.split("/")
        fd = os.dup(self.fds[root])
        for part in outer:
            inner = os.open(part, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        return fd, name

    def one(self, kind: bytes, payload: bytes) -> None:
        """Write one entry, or a part of a file."""
        if kind == b"b":
            view, at = memoryview(payload)[8:], int.from_bytes(payload[:8], "big")
            while view and self.fd >= 0:
                count = os.pwrite(self.fd, view, at)
                view, at = view[count:], at + count
            return
        self.finish()
        about = json.loads(payload)
        root, path = about["in"], about["path"]
        if f"{self.roots[root].rstrip('/')}/{path}" in self.mounted:
            return  # the policy of this sandbox has something there
        fd, name = self.parent(root, path)
        try:
            self.seen.add((root, path))
            if kind == b"d":
                clear(fd, name, keep_folder=True)
                try:
                    os.mkdir(name, 0o700, dir_fd=fd)
                except FileExistsError:
                    pass
                self.folders.append((root, path, about["mode"], about["at"]))
                return
            clear(fd, name)
            if kind == b"l":
                os.symlink(about["target"], name, dir_fd=fd)
            elif kind == b"h":
                source, old = self.parent(*about["target"])
                os.link(old, name, src_dir_fd=source, dst_dir_fd=fd, follow_symlinks=False)
                os.close(source)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                self.fd, self.about = os.open(name, flags, 0o600, dir_fd=fd), about
                os.ftruncate(self.fd, about["size"])
        finally:
            os.close(fd)

    def finish(self) -> None:
        """Set mode and time of the last file, and close it."""
        if self.fd >= 0:
            os.fchmod(self.fd, self.about["mode"])
            os.utime(self.fd, ns=(self.about["at"], self.about["at"]))
            os.close(self.fd)
            self.fd = -1

    def prune(self, root: int, place: str, path: str, fd: int) -> None:
        """Remove what the caller did not send, and close the folder."""
        try:
            for name in os.listdir(fd):
                where, inner = f"{place.rstrip('/')}/{name}", f"{path}/{name}" if path else name
                if where in self.mounted or where in self.roots:
                    continue
                kept = any(each.startswith(f"{where}/") for each in (*self.mounted, *self.roots))
                if (root, inner) not in self.seen and not kept:
                    clear(fd, name)
                elif stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                    self.prune(root, where, inner, os.open(name, _FOLDER, dir_fd=fd))
        finally:
            os.close(fd)


def clear(folder: int, name: str, *, keep_folder: bool = False) -> None:
    """Remove what lies at ``name``, if anything does."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=folder)
    elif not keep_folder:
        fd = opened(name, folder, found, _FOLDER)
        try:
            os.fchmod(fd, 0o700)
            for inner in os.listdir(fd):
                clear(fd, inner)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=folder)


def main() -> None:
    """Carry out the one request of the caller."""
    _, payload = receive()
    request = json.loads(payload)
    os.umask(0)
    widen(0)
    widen(1)
    try:
        worker = Reader(request["roots"]) if request["operation"] == "take" else Writer(request["roots"])
        send(b"=", json.dumps(worker.run()).encode())
    except OSError as error:
        reason = f"{os.fsdecode(error.filename or '')[:200]}: {error.strerror}"
        send(b"x", json.dumps({"errno": error.errno or 0, "reason": reason}).encode())
    except (Refused, ValueError, RecursionError, MemoryError) as error:
        send(b"x", json.dumps({"errno": 0, "reason": str(error) or type(error).__name__}).encode())
    receive()  # until the caller ends this process


if __name__ == "__main__":
    main()
