"""The collector: a process that reads the files of one folder after the guest's end, within a few seconds.

A guest may have arranged that folder to stall or mislead its reader. So the collector has only the folder's descriptor
and a pipe, limits on itself, and the guest's uid where root started the run. It follows no link. It opens only regular
files with one name, and reports the name and kind of everything else.
"""

from __future__ import annotations

import errno
import os
import resource
import stat

from stockade.core import patterns
from stockade.core.launch import Collect
from stockade.linux import beneath, processes
from stockade.linux.copying import identity
from stockade.warden.run import collector_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal  # the ``signal`` module imports ``enum``

_CHUNK = 1 << 18
_OWN_MEMORY = 1 << 29
_DESCRIPTORS = 512
_MOST_REFUSED = 1000
_MOST_MANIFEST = 1 << 28
_TWO_NAMES = "has more than one name (a hard link)"


class TooMuchError(Exception):
    """The search met a limit, and ends."""


def become_collector(order: Collect, collect_fds: list[int], *, out: int, warden: int, uid: int | None) -> NoReturn:
    """Turn a fresh child of the warden into the collector, which writes records to ``out``. Never return."""
    try:
        folder, manifest = (*collect_fds, -1)[:2]
        if manifest >= 0:  # the project was copied, if only because its file system allows no overlay for the guest
            order = order.adding(copied=True, overlaid=False)
        signal.setitimer(signal.ITIMER_REAL, order.seconds)  # the kernel ends the collector wherever it may hang
        processes.close_all_but((*collect_fds, out, warden))
        _bound(order)
        processes.give_up_rights(uid, warden)
        Collector(order, folder, out, _read_manifest(manifest)).run()
    except BaseException:  # the reader notices that the END record is missing
        os._exit(1)
    os._exit(0)


def _bound(order: Collect) -> None:
    memory = _OWN_MEMORY + 4 * order.file_bytes
    seconds = int(order.seconds) + 1
    for number, figure in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_NOFILE, _DESCRIPTORS),
        (resource.RLIMIT_FSIZE, 0),
    ):
        hard = resource.getrlimit(number)[1]
        most = figure if hard == resource.RLIM_INFINITY else min(figure, hard)
        resource.setrlimit(number, (most, most))


def _read_manifest(fd: int) -> dict[bytes, bytes]:
    """Return the files that were copied in: each path, and the ``identity`` of its file."""
    if fd < 0:
        return {}
    data = os.pread(fd, _MOST_MANIFEST, 0)
    fields = data.split(b"\0")
    return dict(zip(fields[0:-1:2], fields[1:-1:2], strict=True))


class Collector:
    """Walks over one folder once."""

    def __init__(self, order: Collect, folder: int, out: int, manifest: dict[bytes, bytes]) -> None:
        self._order = order
        self._folder = folder
        self._out = out
        self._skip = frozenset(map(os.fsencode, order.skip))
        self._manifest = manifest
        self._copied = order.copied
        # Files that match a pattern, and all others, have separate quotas: many of one kind do not crowd out the other.
        self._left = {True: order.files, False: order.files}
        self._bytes_left = {True: order.total_bytes, False: order.total_bytes}
        self._names_left = order.names
        self._refused = 0

    def run(self) -> None:
        """Walk over the folder, and write the END record."""
        trouble = ""
        try:
            self._walk(self._folder, b"", 0)
            for path in sorted(self._manifest):  # the walk has removed every path that still exists
                self._write(collector_records.DELETED, path)
        except TooMuchError as error:
            trouble = str(error)
        self._write(collector_records.END, body=trouble.encode())

    def _walk(self, found: int, path: bytes, depth: int) -> None:
        """Visit everything in the folder ``found``, which lies at ``path``."""
        folder = self._reopen(found, os.O_RDONLY | os.O_DIRECTORY, 0o700)
        try:
            for name in self._names(folder):
                inner = path + b"/" + name if path else name
                if inner in self._skip:
                    continue
                try:
                    self._look_at(folder, name, inner, depth)
                except OSError as error:
                    self._refuse(inner, f"cannot be read: {os.strerror(error.errno or errno.EIO)}")
        finally:
            os.close(folder)

    def _look_at(self, folder: int, name: bytes, path: bytes, depth: int) -> None:
        entry = beneath.look(folder, name)
        try:
            self._visit(entry, path, depth)
        finally:
            os.close(entry)

    def _names(self, folder: int) -> list[bytes]:
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self._names_left -= 1
                if self._names_left < 0:
                    raise TooMuchError(f"the folder holds more than {self._order.names} names")
                found.append(os.fsencode(entry.name))
        return sorted(found)

    def _visit(self, entry: int, path: bytes, depth: int) -> None:
        status = os.fstat(entry)
        if stat.S_ISDIR(status.st_mode):
            self._visit_folder(entry, path, status, depth)
        elif self._copied and self._manifest.pop(path, b"") == identity(status):
            return  # unchanged since it was copied in
        elif self._order.everything or self._is_wanted(path):
            self._bring(entry, path, status)

    def _visit_folder(self, entry: int, path: bytes, status: os.stat_result, depth: int) -> None:
        if depth >= self._order.depth:
            self._refuse(path, f"lies deeper than {self._order.depth} folders")
            return
        known = self._copied and self._manifest.pop(path, b"") == b"folder"
        if self._order.everything:
            # Record the mode first: to read the folder may require another mode.
            fresh = not known if self._copied else self._is_opaque(entry)
            self._write(collector_records.FRESH_FOLDER if fresh else collector_records.FOLDER, path, status.st_mode)
        self._walk(entry, path, depth + 1)

    def _bring(self, entry: int, path: bytes, status: os.stat_result) -> None:
        mode, wanted = status.st_mode, self._is_wanted(path)
        if stat.S_ISCHR(mode) and status.st_rdev == 0 and self._order.overlaid:
            self._write(collector_records.DELETED, path)
        elif not _is_text(path):
            self._refuse(path, "its name is not UTF-8")
        elif stat.S_ISLNK(mode) and self._order.everything:
            self._write(collector_records.LINK, path, mode, os.fsencode(os.readlink(b"", dir_fd=entry)))
        elif not stat.S_ISREG(mode):
            self._refuse(path, f"is {_kind(mode)}")
        elif status.st_nlink != 1:
            self._refuse(path, _TWO_NAMES)
        elif status.st_size > self._order.file_bytes:
            self._refuse(path, f"has {status.st_size} bytes, more than {self._order.file_bytes}")
        elif self._left[wanted] <= 0:
            self._refuse(path, f"is one more than {self._order.files} files")
        elif status.st_size > self._bytes_left[wanted]:
            self._refuse(path, f"would make it more than {self._order.total_bytes} bytes together")
        else:
            self._bring_file(entry, path, mode, wanted=wanted)

    def _bring_file(self, entry: int, path: bytes, mode: int, *, wanted: bool) -> None:
        most = min(self._order.file_bytes, self._bytes_left[wanted])
        fd = self._reopen(entry, os.O_RDONLY, 0o600)
        try:
            pieces, size = [], 0
            while size <= most and (piece := os.read(fd, min(_CHUNK, most + 1 - size))):
                pieces.append(piece)
                size += len(piece)
        finally:
            os.close(fd)
        if size > most:
            self._refuse(path, "grew while it was read")
            return
        self._left[wanted] -= 1
        self._bytes_left[wanted] -= size
        self._write(collector_records.FILE, path, mode, b"".join(pieces))

    def _reopen(self, found: int, flags: int, mode: int) -> int:
        """Open a file or folder that was examined. A guest may have taken its owner's permission away. If the folder is
        removed with the run, set the permission again."""
        try:
            return beneath.reopen(found, flags)
        except PermissionError:
            if not self._order.own:
                raise
            os.chmod(f"/proc/self/fd/{found}", mode)
            return beneath.reopen(found, flags)

    def _is_wanted(self, path: bytes) -> bool:
        text = path.decode("utf-8", "surrogateescape")
        return any(patterns.matches(text, pattern) for pattern in self._order.patterns)

    def _is_opaque(self, entry: int) -> bool:
        try:
            folder = self._reopen(entry, os.O_RDONLY | os.O_DIRECTORY, 0o700)
        except OSError:
            return False
        try:
            return os.getxattr(folder, "user.overlay.opaque") == b"y"
        except OSError:
            return False
        finally:
            os.close(folder)

    def _refuse(self, path: bytes, reason: str) -> None:
        self._refused += 1
        if self._refused > _MOST_REFUSED:
            raise TooMuchError(f"more than {_MOST_REFUSED} entries of the folder cannot be brought out")
        self._write(collector_records.REFUSED, path[: collector_records.LONGEST_PATH], body=reason.encode())

    def _write(self, kind: bytes, path: bytes = b"", mode: int = 0, body: bytes = b"") -> None:
        view = memoryview(collector_records.pack(kind, path, stat.S_IMODE(mode), body))
        while view:
            view = view[os.write(self._out, view) :]


def _is_text(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    )
    return next((name for check, name in kinds if check(mode)), "no regular file")
