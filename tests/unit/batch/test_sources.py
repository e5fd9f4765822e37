import gzip
import json

import pytest

from stockade import JobError, Program
from stockade.batch import sources
from stockade.batch.records import RecordError

ALL = lambda _: True  # noqa: E731


def entries(source):
    return list(source.entries(ALL))


def test_lines_source_numbers_lines_of_file(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "a", "source": ""}\n\n  \n{"id": "b"}\nx\n{"id": "a", "source": "1"}')
    seen = sources.scan(sources.lines(path))
    assert (seen.good, seen.last) == (1, 6)
    assert seen.bad.keys() == {4, 5, 6}
    assert seen.bad[6] == "id = 'a': program 1 has the same id"
    wanted = list(sources.lines(path).entries(lambda number: number == 1))
    assert [(number, item.id) for number, item in wanted] == [(1, "a")]


def test_lines_source_unpacks_gz_file(tmp_path):
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": "a", "source": ""}\n'))
    assert entries(sources.lines(path))[0][1].id == "a"


@pytest.mark.parametrize("data", [b"hello", gzip.compress(b'{"id": "a", "source": ""}\n' * 999)[:-20]])
def test_lines_source_broken_gz_error_names_file(tmp_path, data):
    path = tmp_path / "p.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(JobError, match=r"p\.jsonl\.gz: cannot unpack the file"):
        entries(sources.lines(path))


def test_lines_source_endless_line_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_LINE", 100)
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "%s", "source": ""}\n{"id": "b", "source": ""}\n' % ("x" * 1000))
    (_, first), (number, second) = entries(sources.lines(path))
    assert isinstance(first, RecordError) and number == 2 and second.id == "b"


def test_lines_digest_changes_with_bytes(tmp_path):
    path = tmp_path / "p.jsonl"
    digests = set()
    for text in ("a", "b", "a\n"):
        path.write_text(text)
        digests.add(sources.lines(path).digest())
    assert len(digests) == 3


@pytest.mark.parametrize("place", ["/nowhere", "/dev/null", "/"])
def test_lines_source_irregular_file_is_refused(place):
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


def test_folder_source_reads_problems_and_solutions(problem):
    for place in (problem, problem.parent):
        (_, bad), (_, good) = entries(sources.folder(place))
        assert (bad.id, bad.language, good.id, good.language) == ("sum/bad.sh", "shell", "sum/good.py", "python")
        assert [(case.name, case.stdin, case.expected, case.compare) for case in good.cases] == [
            ("1", "1 2\n", "3\n", "tokens"), ("big", "5 5\n", "10\n", "tokens"),
        ]  # fmt: skip
        assert good.limits == {"memory": "64MiB"} and good.problem == "sum"


def test_folder_solution_without_language_is_named_once(problem):
    (problem / "solutions" / "notes.txt").write_text("")
    (error,) = (str(item) for _, item in entries(sources.folder(problem)) if isinstance(item, RecordError))
    assert error.count("notes.txt") == 1 and "no language has the suffix '.txt'" in error, error


def test_folder_source_solutions_from_other_folder(problem, tmp_path):
    others = tmp_path / "others"
    (others / "sum").mkdir(parents=True)
    (others / "sum" / "one.py").write_text("1")
    (others / "sum.py").write_text("2")
    (others / "product.py").write_text("3")
    found = entries(sources.folder(problem.parent, others))
    assert [item.id for _, item in found] == ["sum/one.py", "sum/sum.py"]


def test_folder_case_without_output_is_bad(problem):
    (problem / "big.out").unlink()
    (_, item), _ = entries(sources.folder(problem))
    assert isinstance(item, RecordError) and "big.in has no big.out beside it" in str(item)


def test_folder_problem_with_unknown_field_is_bad(problem):
    (problem / "problem.toml").write_text("memory = 3\n")
    (_, item), _ = entries(sources.folder(problem))
    assert isinstance(item, RecordError) and "problem.toml: unknown field 'memory'" in str(item)


@pytest.mark.parametrize("what", ["problems", "solutions"])
def test_folder_source_empty_folder_is_refused(tmp_path, problem, what):
    if what == "problems":
        with pytest.raises(JobError, match="no folder there holds cases"):
            sources.folder(tmp_path / "problems" / "sum" / "solutions")
    else:
        with pytest.raises(JobError, match=r"none: no solutions; .* sum/ANY\.py or sum\.py there"):
            (tmp_path / "none").mkdir()
            sources.folder(problem, tmp_path / "none")


def test_folder_digest_changes_with_its_files(problem):
    before = sources.folder(problem).digest()
    (problem / "1.out").write_text("4\n")
    assert sources.folder(problem).digest() != before


def test_scan_callers_reason_counts_as_bad(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"id": "a", "source": ""}))
    wrong = lambda program: "too large" if isinstance(program, Program) else ""  # noqa: E731
    assert sources.scan(sources.lines(path), wrong).bad == {1: "too large"}
