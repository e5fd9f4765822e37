"""The file of verdicts. A batch only appends to it while it runs, and can resume from it after any interruption.

Beside ``verdicts.jsonl`` lies ``verdicts.jsonl.batch``, which says which batch the verdicts belong to. That file is
synced to the disk before the first verdict is written. A verdict is one line in one write. A kill or a full disk may
leave a part of a line; it is cut off when the batch resumes. See the decision record "A batch's file of verdicts is
its journal".
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

from stockade.batch.records import Verdict, VerdictKind
from stockade.core.errors import JobError
from stockade.core.strict_json import dumps
from stockade.workspace.host_files import HostFile

_SYNC_SECONDS = 1.0
"""Seconds between two syncs. After a loss of power, at most the verdicts of this time are lost and judged again."""
_CHUNK = 1 << 20
_MOST_IDENTITY = 1 << 24
_WORDS = frozenset(VerdictKind)
Record = dict[str, Any]


class Journal:
    """Opens the file for a batch. Raises ``JobError`` if the file holds anything else, and ``OSError`` as files do."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: Mapping[str, Any],
        *,
        overwrite: bool = False,
        writable: Sequence[str] = (),
    ) -> None:
        """``writable`` holds the host paths that guests may write to. The file must lie in none of them."""
        self._file = HostFile(path, "the file of verdicts", writable)
        self.path = Path(self._file.path)  # resolved: a link stays a link when the sorted file replaces this one
        self._fd = _open(self._file)
        self._beside = self._file.beside(".batch")
        self._end = 0
        self._synced = time.monotonic()
        try:
            self._begin(dict(identity), overwrite=overwrite)
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Journal:
        """Return the journal."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sync the verdicts to the disk, unless an ``OSError`` came first, and close the file."""
        try:
            if error is None or not isinstance(error, OSError):
                os.fsync(self._fd)
        finally:
            self._close()

    def _close(self) -> None:
        os.close(self._fd)
        self._file.close()
        self._beside.close()

    def records(self) -> Iterator[Record]:
        """Yield the verdicts in the open file, even if its name belongs to another file by now."""
        return (record for _, _, record in self._read() if record is not None)

    def replay(self, number_of_programs: int, seen: Callable[[Record], None]) -> bytearray:
        """Pass each verdict in the file to ``seen``, and cut off a torn end.

        Returns one byte for each number up to that of the last program: 1 if the program has its verdict.
        """
        done = bytearray(number_of_programs + 1)
        for place, end, record in self._read():
            if record is None:
                self._cut(place)
                break
            number = record["number"]
            if number > number_of_programs or done[number]:
                what = "is there twice" if number <= number_of_programs else "does not belong to this input"
                raise JobError(f"{self.path}: the verdict on {record['id']!r} (number {number}) {what}")
            done[number] = 1
            self._end = end
            seen(record)
        return done

    def append(self, verdict: Verdict) -> Record:
        """Write a verdict; return the record. Raises ``OSError`` if the disk does not take all of it."""
        record = verdict.as_json()
        line = dumps(record).encode("ascii") + b"\n"
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            os.ftruncate(self._fd, self._end)  # to shrink a file needs no space
            raise
        self._end += len(line)
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            os.fdatasync(self._fd)
            self._synced = time.monotonic()
        return record

    def sort(self) -> None:
        """Sort the verdicts into the order of the input: write a second file, which then replaces the first."""
        places = sorted((record["number"], place, end) for place, end, record in self._read() if record is not None)
        if all(one[1] < other[1] for one, other in pairwise(places)):
            return
        with self._file.replaced(mode=_mode(self._fd), lasting=True) as file:
            for _, place, end in places:
                file.write(os.pread(self._fd, end - place, place))

    def _begin(self, identity: dict[str, Any], *, overwrite: bool) -> None:
        size = os.fstat(self._fd).st_size
        if size and overwrite:
            os.ftruncate(self._fd, 0)
            os.fsync(self._fd)
        elif size:
            self._require_same(identity)
            return
        self._beside.write(dumps(identity, indent=1).encode("ascii") + b"\n", lasting=True)

    def _require_same(self, identity: dict[str, Any]) -> None:
        instead = "give another file, or --overwrite"
        try:
            before = json.loads(self._beside.read(_MOST_IDENTITY))
        except FileNotFoundError:
            raise JobError(f"{self.path} is not empty, and {self._beside.name} is not beside it; {instead}") from None
        except (OSError, ValueError) as error:
            raise JobError(f"{self._beside.path}: cannot be read: {error}; {instead}") from None
        now = json.loads(dumps(identity))
        differing = _differing(before, now) if isinstance(before, dict) else "all of it"
        if differing:
            raise JobError(f"{self.path} holds the verdicts of another batch ({differing}); {instead}")

    def _read(self) -> Iterator[tuple[int, int, Record | None]]:
        """Yield begin, end and verdict of each line; for a torn end, yield ``None`` as the last verdict.

        Raises ``JobError`` for an invalid line before a valid one: only another program can have written it.
        """
        torn = -1
        for place, line in _lines(self._fd):
            record = _record(line)
            if record is None:
                torn = place if torn < 0 else torn
            elif torn >= 0:
                raise JobError(f"{self.path}: the line at byte {torn} is not a verdict, but verdicts follow it")
            else:
                yield place, place + len(line), record
        if torn >= 0:
            yield torn, torn, None

    def _cut(self, place: int) -> None:
        os.ftruncate(self._fd, place)
        os.fsync(self._fd)


def _open(file: HostFile) -> int:
    path, flags = file.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK
    try:
        fd = file.open(flags)
    except OSError as error:
        raise JobError(f"{path}: {error.strerror}") from None
    try:
        if file.is_stream or not stat.S_ISREG(os.fstat(fd).st_mode):
            raise JobError(f"{path}: not a regular file; a batch needs one to resume after an interruption")
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise JobError(f"{path}: another batch is writing to this file") from None
    except BaseException:
        os.close(fd)
        raise
    return fd


def _lines(fd: int) -> Iterator[tuple[int, bytes]]:
    place, rest, at = 0, b"", 0
    while data := os.pread(fd, _CHUNK, at):
        at += len(data)
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield place, line + b"\n"
            place += len(line) + 1
    if rest:
        yield place, rest


def _record(line: bytes) -> Record | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    right = (
        isinstance(record, dict)
        and type(record.get("number")) is int
        and record["number"] > 0
        and isinstance(record.get("id"), str)
        and record.get("verdict") in _WORDS
    )
    return record if right else None


def _differing(before: Mapping[str, Any], now: Mapping[str, Any], place: str = "") -> str:
    """Return the first difference, with both values; an empty string if both are equal."""
    for key in dict.fromkeys((*before, *now)):
        one, other = before.get(key), now.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            inner = _differing(one, other, f"{place}{key}.")
            if inner:
                return inner
        elif one != other:
            return f"{place}{key}: it was {one!s:.80}, now it is {other!s:.80}"
    return ""


def _mode(fd: int) -> int:
    return stat.S_IMODE(os.fstat(fd).st_mode)
