"""Append records to the file of an audit log, from any thread of any process."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from stockade.observe import chain
from stockade.observe.chain import AuditError
from stockade.workspace.host_files import HostFile

_BEGIN = b'{"n":'
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT


class LogFile:
    """A file of chained records. ``rotate`` is the size in bytes of a full one, which is renamed; ``None``: never."""

    def __init__(self, path: str | os.PathLike[str], *, sync: bool, rotate: int | None) -> None:
        """Open the file and check its end. Raises ``JobError`` for a path that nobody may write to."""
        self._place = HostFile(path, "audit")
        self.path = self._place.path
        """The real path."""
        self._sync, self._rotate = sync, rotate
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._fd = -1
        self._size, self._number, self._head = -1, 0, ""
        self.named: set[str] = set()
        """What records of this file hold once and others name by its digest."""
        try:
            self._place.require_writable()
            with self.appending():
                pass
        except BaseException:
            self._close()
            self._place.close()
            raise

    def close(self) -> None:
        """Close the file. The next record opens it again."""
        with self._lock:
            self._close()

    @contextmanager
    def appending(self) -> Iterator[None]:
        """Lock the log against other threads and processes, and find its end. Raises ``AuditError`` if that fails."""
        with self._lock:
            try:
                self._lock_file()
                try:
                    self._find_end()
                    yield
                    if self._rotate is not None and self._size >= self._rotate:
                        self._place.move_aside()
                finally:
                    fcntl.flock(self._fd, fcntl.LOCK_UN)
            except OSError as error:
                raise AuditError(f"audit {self.path}: {error.strerror or error}, so the log lacks a record") from error

    def append(self, event: str, fields: Mapping[str, Any]) -> None:
        """Write one record at the end, inside ``appending``."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = chain.encode({"n": self._number + 1, "at": at, "event": event, **fields, "before": self._head})
        if len(line) > chain.LONGEST:
            raise AuditError(f"audit {self.path}: a record has {len(line):,} bytes, and at most {chain.LONGEST:,} fit")
        self._write(line)
        self._number += 1
        self._head = chain.digest(line[:-1])

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
            if self._sync:
                os.fdatasync(self._fd)
        except BaseException:
            self._size = -1  # whatever was written is read again
            raise
        self._size += len(data)

    def _lock_file(self) -> None:
        """Open the file if need be, and lock it. Another process may have renamed a full one meanwhile."""
        if self._owner != os.getpid():  # a fork shares the lock of its parent's descriptor
            self._close()
            self._owner = os.getpid()
        while True:
            if self._fd < 0:
                self._fd = self._place.open(_FLAGS, 0o600)
                self._size, self.named = -1, set()
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if self._place.is_there(self._fd):
                return
            self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _find_end(self) -> None:
        """Read the last records, unless this object wrote them. Note a line that a crash or a full disk has torn."""
        size = os.fstat(self._fd).st_size
        if size == self._size:
            return
        self._size = size
        if size == 0:
            self._number, self._head = self._end_of_last_part()
            if self._number:
                self.append("continued", {})
            return
        if not _BEGIN.startswith(os.pread(self._fd, len(_BEGIN), 0)):
            raise AuditError(f"audit {self.path}: is not an audit log; name a file that does not exist yet")
        *_, before, last = [b"", *last_lines(self._fd, size)]
        self._head = chain.digest(last)
        if os.pread(self._fd, 1, size - 1) != b"\n":
            self._write(b"\n")
        record = chain.parse(last)
        if record is None:
            self._number = (chain.parse(before) or {"n": 0})["n"]
            self.append("torn", {"bytes": len(last)})
        else:
            self._number = record["n"]

    def _end_of_last_part(self) -> tuple[int, str]:
        parts = self._place.parts()
        if not parts:
            return 0, ""
        with self._place.opened_part(parts[-1]) as file:
            last = last_lines(file.fileno(), os.fstat(file.fileno()).st_size)[-1]
        record = chain.parse(last)
        if record is None:
            raise AuditError(f"audit {self.path}.{parts[-1]}: its last line is not a record, so nothing can follow it")
        return record["n"], chain.digest(last)


def last_lines(fd: int, size: int) -> list[bytes]:
    """Return the last two lines of a file without their newlines, or the only one."""
    most = min(size, 2 * chain.LONGEST + 2)
    data = os.pread(fd, most, size - most)
    return data.removesuffix(b"\n").split(b"\n")[-2:]
