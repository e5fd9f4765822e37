import gzip
import json

import pytest

from stockade import JobError, Program
from stockade.batch import sources
from stockade.batch.records import RecordError

ALL = lambda _: True  # noqa: E731


def entries(source):
    return list(source.entries(ALL))


def test_lines_have_their_numbers_in_the_file(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "a", "source": ""}\n\n  \n{"id": "b"}\nx\n{"id": "a", "source": "1"}')
    seen = sources.scan(sources.lines(path))
    assert (seen.good, seen.last) == (1, 6)
    assert seen.bad.keys() == {4, 5, 6}
    assert seen.bad[6] == "id = 'a': number 1 has it already"
    wanted = list(sources.lines(path).entries(lambda number: number == 1))
    assert [(number, item.id) for number, item in wanted] == [(1, "a")]


def test_a_packed_file_is_unpacked(tmp_path):
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": "a", "source": ""}\n'))
    assert entries(sources.lines(path))[0][1].id == "a"


@pytest.mark.parametrize("data", [b"hello", gzip.compress(b'{"id": "a", "source": ""}\n' * 999)[:-20]])
def test_a_packed_file_that_is_torn_or_none_is_told_by_name(tmp_path, data):
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(JobError, match=r"p\.jsonl\.gz: cannot be unpacked"):
        entries(sources.lines(path))


def test_a_line_without_end_is_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_LINE", 100)
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "%s", "source": ""}\n{"id": "b", "source": ""}\n' % ("x" * 1000))
    (_, first), (number, second) = entries(sources.lines(path))
    assert isinstance(first, RecordError) and number == 2 and second.id == "b"


def test_the_digest_changes_with_the_bytes(tmp_path):
    path = tmp_path / "p.jsonl"
    digests = set()
    for text in ("a", "b", "a\n"):
        path.write_text(text)
        digests.add(sources.lines(path).digest())
    assert len(digests) == 3


@pytest.mark.parametrize("place", ["/nowhere", "/dev/null", "/"])
def test_what_cannot_be_read_twice_is_refused(place):
    from pathlib import Path

    with pytest.raises(JobError):
        sources.lines(Path(place))


@pytest.fixture
def problem(tmp_path):
    folder = tmp_path / "problems" / "sum"
    (folder / "solutions").mkdir(parents=True)
    (folder / "1.in").write_text("1 2\n")
    (folder / "1.out").write_text("3\n")
    (folder / "big.in").write_text("5 5\n")
    (folder / "big.out").write_text("10\n")
    (folder / "problem.toml").write_text('compare = "tokens"\n[limits]\nmemory = "64MiB"\n')
    (folder / "solutions" / "good.py").write_text("print(sum(map(int, input().split())))")
    (folder / "solutions" / "bad.sh").write_text("echo 3")
    return folder


def test_a_folder_of_problems(problem):
    for place in (problem, problem.parent):
        (_, bad), (_, good) = entries(sources.folder(place))
        assert (bad.id, bad.language, good.id, good.language) == ("sum/bad.sh", "shell", "sum/good.py", "python")
        assert [(case.name, case.stdin, case.expected, case.compare) for case in good.cases] == [
            ("1", "1 2\n", "3\n", "tokens"), ("big", "5 5\n", "10\n", "tokens"),
        ]  # fmt: skip
        assert good.limits == {"memory": "64MiB"} and good.problem == "sum"


def test_solutions_elsewhere(problem, tmp_path):
    others = tmp_path / "others"
    (others / "sum").mkdir(parents=True)
    (others / "sum" / "one.py").write_text("1")
    (others / "sum.py").write_text("2")
    (others / "product.py").write_text("3")
    found = entries(sources.folder(problem.parent, others))
    assert [item.id for _, item in found] == ["sum/one.py", "sum/sum.py"]


def test_a_case_without_its_output_is_told(problem):
    (problem / "big.out").unlink()
    (_, item), _ = entries(sources.folder(problem))
    assert isinstance(item, RecordError) and "big.in is there and big.out is not" in str(item)


def test_a_problem_with_an_unknown_field_is_told(problem):
    (problem / "problem.toml").write_text("memory = 3\n")
    (_, item), _ = entries(sources.folder(problem))
    assert isinstance(item, RecordError) and "problem.toml: memory" in str(item)


@pytest.mark.parametrize("what", ["problems", "solutions"])
def test_an_empty_folder_is_refused(tmp_path, problem, what):
    if what == "problems":
        with pytest.raises(JobError, match="no folder in it holds cases"):
            sources.folder(tmp_path / "problems" / "sum" / "solutions")
    else:
        with pytest.raises(JobError, match="no solutions to 1 problems"):
            (tmp_path / "none").mkdir()
            sources.folder(problem, tmp_path / "none")


def test_the_digest_of_a_folder_is_that_of_its_files(problem):
    before = sources.folder(problem).digest()
    (problem / "1.out").write_text("4\n")
    assert sources.folder(problem).digest() != before


def test_what_else_is_wrong_counts_as_bad(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"id": "a", "source": ""}))
    wrong = lambda program: "too large" if isinstance(program, Program) else ""  # noqa: E731
    assert sources.scan(sources.lines(path), wrong).bad == {1: "too large"}
