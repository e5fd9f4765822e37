import json
import os
import resource

import pytest

from stockade import JobError
from stockade.batch.journal import Journal
from stockade.batch.records import Verdict, VerdictKind

IDENTITY = {"version": 1, "input": {"sha256": "a"}, "settings": {"policy": {"limits": {"memory": 1}}}}


def verdict(number, **more):
    return Verdict(id=f"id{number}", verdict=VerdictKind.PASSED, number=number, **more)


def ids(path):
    return [json.loads(line)["number"] for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "verdicts.jsonl"


def opened(path, identity=IDENTITY, **options):
    return Journal(path, identity, **options)


def written(path, *numbers):
    with opened(path) as journal:
        journal.replay(100, lambda _: None)
        for number in numbers:
            journal.append(verdict(number))


def test_journal_replay_returns_written_verdicts(path):
    written(path, 1, 3)
    seen = []
    with opened(path) as journal:
        done = journal.replay(5, seen.append)
        journal.append(verdict(2))
    assert [number for number in range(6) if done[number]] == [1, 3]
    assert [record["id"] for record in seen] == ["id1", "id3"]
    assert ids(path) == [1, 3, 2]
    with opened(path) as journal:
        assert [record["number"] for record in journal.records()] == [1, 3, 2]


@pytest.mark.parametrize("torn", [b'{"id": "x', b"\0" * 5000, b'{"id": "x"}\n', b"\0\n\0", b"null\n" * 3, b"\xff\n"])
def test_replay_torn_end_cuts_it_off(path, torn):
    written(path, 1, 2)
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(torn)
    with opened(path) as journal:
        done = journal.replay(5, lambda _: None)
        assert path.read_bytes() == whole
        journal.append(verdict(3))
    assert sum(done) == 2 and ids(path) == [1, 2, 3]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_replay_cut_line_is_not_done(path, cut):
    written(path, 1, 2)
    os.truncate(path, path.stat().st_size - cut)
    with opened(path) as journal:
        assert sum(journal.replay(5, lambda _: None)) == 1
    assert ids(path) == [1]


def test_replay_foreign_line_in_middle_is_refused(path):
    written(path, 1, 2)
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"what?\n" + second)
    before = path.read_bytes()
    with opened(path) as journal, pytest.raises(JobError, match="is not a verdict, but verdicts follow it"):
        journal.replay(5, lambda _: None)
    assert path.read_bytes() == before


def test_replay_duplicate_verdict_is_refused(path):
    written(path, 1, 1)
    with opened(path) as journal, pytest.raises(JobError, match=r"'id1' \(number 1\) is there twice"):
        journal.replay(5, lambda _: None)


def test_replay_verdict_of_other_input_is_refused(path):
    written(path, 9)
    with opened(path) as journal, pytest.raises(JobError, match="does not belong to this input"):
        journal.replay(5, lambda _: None)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({**IDENTITY, "input": {"sha256": "b"}}, r"input.sha256: it was a, now it is b"),
        ({**IDENTITY, "settings": {"policy": {"limits": {"memory": 2}}}}, r"memory: it was 1, now it is 2"),
        ({**IDENTITY, "more": 1}, "more: it was None, now it is 1"),
        ({"version": 2}, "version: it was 1, now it is 2"),
    ],
)
def test_journal_of_other_batch_is_refused(path, other, difference):
    written(path, 1)
    before = path.read_bytes()
    with pytest.raises(JobError, match=difference):
        opened(path, other)
    assert path.read_bytes() == before
    with opened(path, other, overwrite=True) as journal:
        assert sum(journal.replay(5, lambda _: None)) == 0
    assert path.read_bytes() == b""


def test_journal_foreign_file_is_refused_and_kept(path):
    path.write_text("a letter\n")
    with pytest.raises(JobError, match=r"is not empty, and verdicts.jsonl.batch is not beside it"):
        opened(path)
    assert path.read_text() == "a letter\n"


def test_journal_empty_file_takes_new_batch(path):
    written(path)
    with opened(path, {"version": 7}) as journal:
        journal.append(verdict(1))
    assert json.loads((path.parent / "verdicts.jsonl.batch").read_text()) == {"version": 7}


def test_journal_second_writer_is_refused(path):
    with opened(path), pytest.raises(JobError, match="another batch is writing to this file"):
        opened(path)
    opened(path).__exit__(None, None, None)


@pytest.mark.parametrize("place", ["/dev/null", "/", "/nowhere/x"])
def test_journal_irregular_file_is_refused(place):
    with pytest.raises(JobError):
        opened(place)


def test_append_full_disk_leaves_whole_lines(path):
    written(path, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    whole = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 20, hard))  # a write beyond the limit is short (write(2))
    try:
        with pytest.raises(OSError), opened(path) as journal:
            journal.replay(5, lambda _: None)
            journal.append(verdict(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == whole


def test_sort_keeps_every_line(path):
    written(path, 3, 1, 2)
    path.chmod(0o640)
    with opened(path) as journal:
        journal.replay(5, lambda _: None)
        journal.sort()
    assert ids(path) == [1, 2, 3]
    assert path.stat().st_mode & 0o777 == 0o640
    assert [item.name for item in sorted(path.parent.iterdir())] == ["verdicts.jsonl", "verdicts.jsonl.batch"]


def test_sort_through_link_keeps_the_link(path, tmp_path):
    real = tmp_path / "elsewhere.jsonl"
    path.symlink_to(real)
    written(path, 2, 1)
    with opened(path) as journal:
        journal.replay(5, lambda _: None)
        journal.sort()
    assert path.is_symlink() and ids(real) == [1, 2]


def test_append_writes_one_line_of_ascii(path):
    with opened(path) as journal:
        journal.append(verdict(1, reason="\u2028\n\x1b[2J ä \ud800"))
    data = path.read_bytes()
    assert data.count(b"\n") == 1 and data.isascii() and b"\x1b" not in data
    with opened(path) as journal:
        assert (
            next(journal.records())["reason"] == "\u2028\n\x1b[2J ä \ufffd"
        )  # strict readers refuse half of a surrogate pair
