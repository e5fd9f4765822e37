"""The format of an audit log: lines of JSON, each with the SHA-256 of the line before it.

Whoever changes, removes or moves a line breaks the chain at that place. A line that was cut off at the end of the file
leaves a shorter chain that is valid: only the number of records and the last digest, kept elsewhere, show that. Each
line has these fields besides its own:

- ``n``: the number of the line in the whole log, from 1.
- ``at``: the time in UTC, as in RFC 3339.
- ``event``: ``start``, ``finish``, ``error``, ``policy``, ``receipt``, ``continued`` or ``torn``.
- ``before``: the SHA-256 of the line before this one, without its newline; empty for the first line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from stockade.core import strict_json
from stockade.core.errors import StockadeError

OF_RUNS = ("start", "finish", "error")
"""The events that have the fields ``run`` and ``labels``."""
_FIELDS = {"n": int, "at": str, "event": str, "before": str}
LONGEST = 1 << 20
"""Bytes of the longest line."""


class AuditError(StockadeError):
    """An audit log is not what it was when it was written, or it cannot be written."""


@dataclass(frozen=True)
class Verified:
    """The contents of a whole log. Keep ``records`` and ``head`` elsewhere to notice lines that are cut off its end."""

    records: int
    head: str
    """The SHA-256 of the last line."""
    torn: int
    """Lines that a crash or a full disk cut, each noted in the line after it."""
    unfinished: tuple[str, ...]
    """Runs that started and have neither a verdict nor an error: they go on, or their caller was killed."""


def digest(line: bytes) -> str:
    """Return the digest of a line without its newline."""
    return hashlib.sha256(line).hexdigest()


def encode(fields: Mapping[str, Any]) -> bytes:
    """Return the line of a record, with its newline."""
    return strict_json.dumps(fields, compact=True).encode() + b"\n"


def parse(line: bytes) -> dict[str, Any] | None:
    """Return the record in a line, or ``None`` if it is not whole."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict) or not all(type(fields.get(name)) is kind for name, kind in _FIELDS.items()):
        return None
    is_of_run = fields["event"] in OF_RUNS
    return None if is_of_run and not (type(fields.get("run")) is str and type(fields.get("labels")) is dict) else fields


def lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a file without their newlines. Raises ``AuditError`` for one that is too long."""
    while line := file.readline(LONGEST + 1):
        if len(line) > LONGEST:
            raise AuditError(f"{name}: a line has more than {LONGEST:,} bytes, and stockade writes none so long")
        yield line.rstrip(b"\n")


def records(files: Iterable[tuple[str, BinaryIO]]) -> Iterator[tuple[str, dict[str, Any] | None, str]]:
    """Yield the place, the record (``None`` for a torn line) and the digest of each line, and check the chain.

    ``files`` are the names and contents of all parts of the log in order. Raises ``AuditError`` with file and line.
    """
    before, number, torn = "", 0, ""
    for name, file in files:
        for count, line in enumerate(lines(file, name), 1):
            place, fields = f"{name}:{count}", parse(line)
            if torn and (fields is None or fields.get("event") != "torn"):
                raise AuditError(f"{torn}: is not a record, and the line after it does not say that it was torn")
            torn = "" if fields is not None else place
            if fields is not None:
                if fields.get("before") != before:
                    raise AuditError(f"{place}: does not follow the line before it: one was changed, removed or added")
                if fields["n"] != number + 1:
                    raise AuditError(f"{place}: has the number {fields['n']} after {number}")
                number = fields["n"]
            before = digest(line)
            yield place, fields, before
    if torn:
        raise AuditError(f"{torn}: is not a record; the next record to be written will say that it was torn")


def verify(files: Iterable[tuple[str, BinaryIO]], noted: str | None = None) -> Verified:
    """Check the chain of a whole log, and return what it holds. Raises ``AuditError`` with file and line.

    ``noted`` is the digest of a line of the log, as it was the last one at some time.
    """
    count = torn = 0
    head, seen = "", noted is None
    running: dict[str, None] = {}
    for _, fields, head in records(files):
        seen = seen or head == noted
        if fields is None:
            torn += 1
            continue
        count += 1
        if fields["event"] == "start":
            running[fields["run"]] = None
        elif fields["event"] in ("finish", "error"):
            running.pop(fields["run"], None)
    if not seen:
        raise AuditError(f"no line has the digest {noted}: lines were cut off the end, or this is another log")
    return Verified(count, head, torn, tuple(running))
