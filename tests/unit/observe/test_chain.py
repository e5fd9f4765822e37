"""An audit log shows every line that was changed, moved, added or removed."""

import io
import json

import pytest

from stockade.observe import chain
from stockade.observe.chain import AuditError


def log(count):
    """Return the lines of a log of ``count`` runs, each with a start and an end."""
    lines, before = [], ""
    for number in range(2 * count):
        event = ("start", "finish")[number % 2]
        fields = {"n": number + 1, "at": "2026-01-01T00:00:00.000Z", "event": event, "run": f"{number // 2}"}
        line = chain.encode({**fields, "labels": {}, "before": before})
        before = chain.digest(line[:-1])
        lines.append(line)
    return lines


def verify(lines, noted=None):
    return chain.verify([("log", io.BytesIO(b"".join(lines)))], noted)


def test_whole_log_is_valid():
    lines = log(3)
    found = verify(lines)
    assert (found.records, found.torn, found.unfinished) == (6, 0, ())
    assert found.head == chain.digest(lines[-1][:-1])


def test_parts_are_one_chain():
    lines = log(3)
    files = [("log.1", io.BytesIO(b"".join(lines[:3]))), ("log", io.BytesIO(b"".join(lines[3:])))]
    assert chain.verify(files).records == 6


def test_unfinished_runs_are_named():
    assert verify(log(3)[:-1]).unfinished == ("2",)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda lines: [lines[0], lines[1].replace(b'"finish"', b'"error"'), *lines[2:]],
        lambda lines: [*lines[:2], *lines[3:]],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [*lines[:3], lines[2], *lines[3:]],
        lambda lines: lines[1:],
        lambda lines: [lines[0], b"\n", *lines[1:]],
        lambda lines: [lines[0], b"x" * (chain.LONGEST + 1) + b"\n", *lines[1:]],
        lambda lines: [lines[0], *log(1)[:1], *lines[1:]],
        lambda lines: [*lines, b'{"n":7}\n'],
    ],
    ids=["changed", "removed", "swapped", "doubled", "first removed", "empty", "too long", "added", "not a record"],
)
def test_tampered_log_is_broken(tamper):
    with pytest.raises(AuditError):
        verify(tamper(log(3)))


def test_noted_digest_shows_a_cut_end():
    lines = log(3)
    noted = verify(lines).head
    assert verify(lines[:4]).records == 4
    with pytest.raises(AuditError, match="cut off"):
        verify(lines[:4], noted)
    assert verify([*lines], noted).records == 6


def test_torn_line_needs_the_record_that_says_so():
    lines = log(2)[:3]
    torn = b'{"n":4,"ev'
    note = {"n": 4, "at": "", "event": "torn", "bytes": len(torn), "before": chain.digest(torn)}
    assert verify([*lines, torn + b"\n", chain.encode(note)]).torn == 1
    with pytest.raises(AuditError, match="not a record"):
        verify([*lines, torn + b"\n"])
    with pytest.raises(AuditError, match="does not say"):
        verify([*lines, torn + b"\n", chain.encode({**note, "event": "continued"})])


def test_number_is_checked_beside_the_digest():
    lines = log(1)
    fields = json.loads(lines[1])
    with pytest.raises(AuditError, match="number 9 after 1"):
        verify([lines[0], chain.encode({**fields, "n": 9})])
