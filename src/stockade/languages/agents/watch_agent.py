"""Reports to the caller what changes in a folder of the sandbox, by inotify(7), as the guest and within its limits.

The kernel holds at most so many changes as ``fs.inotify.max_queued_events`` says. While the caller reads slowly, this
process waits in a write; then the kernel drops changes and says so, and this process reports ``overflow``. So nothing
here grows with what the guest does. One request, a frame ``Q`` (JSON); then ``=`` or ``x`` (an error, JSON), and frames
``c`` with lists of changes. Python 3.8 or newer with ``ctypes``, standard library only.
"""

from __future__ import annotations

import errno
import json
import os
import select
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HEAD = struct.Struct("iIII")
_READ = 64 * 1024
_FRAME = 32 * 1024
"""A frame is sent when it has so many bytes. Its last change can be longer, by two paths."""
_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _OVERFLOW, _IGNORED, _IS_FOLDER = 0x400, 0x800, 0x4000, 0x8000, 0x40000000
_ONLY_FOLDER, _NO_FOLLOW = 0x01000000, 0x02000000
_MASK = _MODIFY | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDER
_DRAFT = b".stockade-"
"""The start of the names that writes of the caller use for a moment."""
_KINDS = ((_MODIFY, "written"), (_ATTRIB, "attributes"), (_CREATE, "created"), (_DELETE, "removed"))


class Gone(Exception):
    """The watched folder was removed or moved."""


class Inotify:
    """The system calls."""

    def __init__(self) -> None:
        import ctypes

        self._ctypes = ctypes
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._checked(self._libc.inotify_init1(os.O_CLOEXEC))

    def add(self, path: bytes, flags: int) -> int:
        """Watch a folder; return its number."""
        return self._checked(self._libc.inotify_add_watch(self.fd, path, _MASK | flags))

    def remove(self, number: int) -> None:
        """Watch a folder no longer."""
        self._libc.inotify_rm_watch(self.fd, number)

    def _checked(self, found: int) -> int:
        if found < 0:
            number = self._ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return found


class Watcher:
    """Watches one folder, or a tree of at most ``most`` folders."""

    def __init__(self, root: str, recursive: bool, most: int) -> None:
        self._root, self._recursive, self._most = os.fsencode(root), recursive, most
        self._inotify = Inotify()
        self.fd = self._inotify.fd
        self._paths: dict[int, bytes] = {}
        self._changes: list[Any] = []
        self._size = 0
        self._top = self._inotify.add(self._root, 0)
        self._paths[self._top] = b""
        if recursive:
            self._add_below(b"", tell=False)

    def read(self) -> None:
        """Read changes once, and send them."""
        data = os.read(self.fd, _READ)
        at, moved = 0, (0, b"", False)
        while at < len(data):
            number, mask, cookie, length = _HEAD.unpack_from(data, at)
            name = data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
            at += _HEAD.size + length
            if moved[0] and not (mask & _MOVED_TO and cookie == moved[0]):
                self._leave(moved[1], moved[2])  # its other half is elsewhere, or comes too late
                moved = (0, b"", False)
            if mask & _OVERFLOW:
                self._tell("overflow", b"")
            elif number == self._top and mask & (_DELETE_SELF | _MOVE_SELF):
                self.flush()
                raise Gone
            elif mask & _IGNORED:
                self._paths.pop(number, None)
            elif number in self._paths and name:
                path, is_folder = os.path.join(self._paths[number], name), bool(mask & _IS_FOLDER)
                if mask & _MOVED_FROM:
                    moved = (cookie, path, is_folder)
                else:
                    self._take(mask, path, is_folder, moved[1])
                    moved = (0, b"", False)
        if moved[0]:
            self._leave(moved[1], moved[2])
        self.flush()

    def _take(self, mask: int, path: bytes, is_folder: bool, source: bytes) -> None:
        if mask & _MOVED_TO:
            if source and not os.path.basename(source).startswith(_DRAFT):
                self._tell("renamed", source, path)
                if is_folder:
                    self._rename(source, path)
                return
            self._tell("written" if source else "created", path)
        else:
            self._tell(next(kind for bit, kind in _KINDS if mask & bit), path)
        if self._recursive and is_folder and mask & (_CREATE | _MOVED_TO):
            self._add(path)
            self._add_below(path, tell=True)

    def _leave(self, path: bytes, is_folder: bool) -> None:
        """Something was moved out of sight."""
        self._tell("removed", path)
        if is_folder:
            for number, other in list(self._paths.items()):
                if other == path or other.startswith(path + b"/"):
                    self._inotify.remove(number)

    def _rename(self, source: bytes, path: bytes) -> None:
        for number, other in self._paths.items():
            if other == source or other.startswith(source + b"/"):
                self._paths[number] = path + other[len(source) :]

    def _add(self, path: bytes) -> bool:
        """Watch a folder of the tree; return whether that was possible."""
        try:
            if len(self._paths) >= self._most:
                raise OSError(errno.ENOSPC, "too many folders")
            self._paths[self._inotify.add(os.path.join(self._root, path), _NO_FOLLOW)] = path
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):  # it is still there, but not watched
                self._tell("overflow", path)
            return False
        return True

    def _add_below(self, path: bytes, *, tell: bool) -> None:
        """Watch the folders below one. ``tell``: what is in them may have come before the watch."""
        left = [path]
        while left:
            folder = left.pop()
            try:
                with os.scandir(os.path.join(self._root, folder) or b".") as found:
                    for each in found:
                        below = os.path.join(folder, each.name)
                        if tell:
                            self._tell("created", below)
                        if each.is_dir(follow_symlinks=False) and self._add(below):
                            left.append(below)
            except OSError:
                continue  # it is gone since, or not for the guest to read

    def _tell(self, kind: str, path: bytes, target: bytes = b"") -> None:
        if os.path.basename(path).startswith(_DRAFT):
            return
        change = [kind, os.fsdecode(path), os.fsdecode(target)]
        if self._changes and self._changes[-1] == change:
            return
        self._changes.append(change)
        self._size += 3 * (len(path) + len(target)) + 32
        if self._size >= _FRAME:
            self.flush()

    def flush(self) -> None:
        """Send the changes that were not sent yet."""
        changes, self._changes, self._size = self._changes, [], 0
        if changes:
            send(b"c", {"changes": changes})


def send(kind: bytes, content: Any) -> None:
    """Send a frame. This waits while the caller does not read."""
    payload = json.dumps(content).encode()
    view = memoryview(kind + len(payload).to_bytes(4, "big") + payload)
    while view:
        view = view[os.write(1, view) :]


def request() -> Any:
    """Return the caller's request."""
    data = b""
    while len(data) < 5 or len(data) < 5 + int.from_bytes(data[1:5], "big"):
        piece = os.read(0, _READ)
        if not piece:
            sys.exit()
        data += piece
    return json.loads(data[5:])


def main() -> None:
    """Watch until the caller is gone."""
    wanted = request()
    try:
        watcher = Watcher(wanted["path"], wanted["recursive"], wanted["most"])
    except ImportError:
        return send(b"x", {"reason": "the sandbox's Python has no ctypes, which watching needs"})
    except OSError as error:
        return send(b"x", {"errno": error.errno})
    send(b"=", {})
    watcher.flush()
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(watcher.fd, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if 0 in ready:
            return None  # the caller closed its end
        try:
            watcher.read()
        except Gone:
            return send(b"x", {"reason": "the folder was removed or moved"})


if __name__ == "__main__":
    main()
