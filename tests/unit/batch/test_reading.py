import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stockade.batch.reading import program_from_line, program_from_record
from stockade.batch.records import Case, Program, RecordError
from tests.support.examples import examples

CHECK = "def check(candidate):\n    assert candidate(1) == 2\n"


def test_line_becomes_program_with_one_case():
    line = json.dumps(
        {"id": 7, "source": "print(1)", "stdin": "x", "expected": "1", "problem": "p", "meta": {"t": 0.7}}
    )
    program = program_from_line(line.encode())
    assert program == Program(id="7", problem="p", source="print(1)", cases=(Case("1", "x", "1"),))


def test_cases_comparison_overrides_that_of_program():
    cases = [{"expected": "1"}, {"name": "two", "stdin": "2", "expected": "2.0", "compare": "floats", "tolerance": 0.1}]
    program = program_from_record({"id": "a", "source": "", "compare": "tokens", "cases": cases})
    assert program.cases == (Case("1", "", "1", "tokens"), Case("two", "2", "2.0", "floats", 0.1))


def test_files_text_or_base64_is_accepted():
    files = {"a.txt": "ä", "b": {"base64": base64.b64encode(b"\xff").decode()}}
    assert program_from_record({"id": "a", "source": "", "files": files}).files == {"a.txt": "ä".encode(), "b": b"\xff"}


def test_test_field_needs_entry_point_or_functions():
    program = program_from_record(
        {"id": "a", "prompt": "def f(x):\n", "answer": "    return x + 1", "test": CHECK, "entry_point": "f"}
    )
    assert program.test is not None and program.cases == ()
    assert (program.test.answer, program.test.functions, program.test.check, program.test.setup) == (
        "def f(x):\n    return x + 1", ("f",), "check", "def f(x):\n",
    )  # fmt: skip
    program = program_from_record({"id": "a", "answer": "...", "test": "assert f() == g()", "functions": ["f", "g"]})
    assert program.test is not None
    assert (program.test.functions, program.test.check, program.test.setup) == (("f", "g"), "", "")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ([], "a program must be an object with an 'id', not []"),
        ({"source": ""}, "'id' is missing"),
        ({"id": "", "source": ""}, "id = ''"),
        ({"id": True, "source": ""}, "id = True"),
        ({"id": "x" * 2000, "source": ""}, "longer than 1000 characters"),
        ({"id": "\ud800", "source": ""}, "surrogate"),
        ({"id": "a"}, "'source' is missing; a program needs 'source', or 'answer' and 'test'"),
        ({"id": "a", "source": 1}, "source = 1: expected a text"),
        ({"id": "a", "source": "\ud800"}, "surrogate"),
        ({"id": "a", "source": "", "stdin": "\udfff"}, "surrogate"),
        ({"id": "a", "source": "", "expceted": "1"}, "expceted: there is no such field; did you mean 'expected'?"),
        ({"id": "a", "source": "", "zzz": "1"}, "zzz: there is no such field; put data of your own into 'meta'"),
        ({"id": "a", "source": "", "language": "cobol"}, "there is no language 'cobol'"),
        ({"id": "a", "source": "", "compare": "fuzzy"}, "compare = 'fuzzy': expected one of exact, lines, tokens, floats"),
        ({"id": "a", "source": "", "tolerance": -1}, "tolerance = -1"),
        ({"id": "a", "source": "", "tolerance": True}, "tolerance = True"),
        ({"id": "a", "source": "", "cases": []}, "cases = []"),
        ({"id": "a", "source": "", "cases": [{}], "stdin": ""}, "'stdin' is not allowed beside 'cases'"),
        ({"id": "a", "source": "", "cases": [1]}, "cases[1] = 1"),
        ({"id": "a", "source": "", "cases": [{"stdinn": ""}]}, "cases[1].stdinn: there is no such field; did you mean"),
        ({"id": "a", "source": "", "files": {"../x": ""}}, "'../x': a file's name in the workspace is relative"),
        ({"id": "a", "source": "", "files": {"x": 1}}, "files['x'] = 1"),
        ({"id": "a", "source": "", "files": {"x": {"base64": "%"}}}, "files['x'] = {'base64': '%'}"),
        ({"id": "a", "source": "", "limits": {"memory": "1KiB"}}, "limits.memory = '1KiB'"),
        ({"id": "a", "source": "", "limits": {"memmory": 1}}, "limits.memmory = 1: there is no such field"),
        ({"id": "a", "source": "", "limits": []}, "limits = []"),
        ({"id": "a", "source": "", "answer": ""}, "'answer' is allowed only together with 'test'"),
        ({"id": "a", "answer": "", "test": CHECK}, "'entry_point' or 'functions' is missing"),
        ({"id": "a", "test": CHECK, "entry_point": "f"}, "'answer' is missing"),
        ({"id": "a", "answer": "", "test": " ", "functions": ["f"]}, "the test is empty"),
        ({"id": "a", "answer": "", "test": "x", "functions": ["f()"]}, "functions = 'f()': not a name"),
        ({"id": "a", "answer": "", "test": "def", "entry_point": "f"}, "test: not valid Python"),
        ({"id": "a", "answer": "", "test": "x", "functions": ["f"], "expected": ""}, "'expected' and 'test' exclude"),
        ({"id": "a", "answer": "", "test": "x", "functions": ["f"], "language": "shell"}, "must be in Python"),
    ],
)  # fmt: skip
def test_record_invalid_is_refused_with_reason(record, reason):
    with pytest.raises(RecordError) as caught:
        program_from_record(record)
    assert reason in str(caught.value)


@pytest.mark.parametrize("line", [b"", b"{", b"\xff", b"NaN", b'{"id": NaN}', b"[" * 100_000, b"1" * 5000])
def test_line_not_json_is_refused(line):
    with pytest.raises(RecordError):
        program_from_line(line)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
NAMES = ["id", "source", "stdin", "expected", "cases", "files", "limits", "test", "answer", "functions", "compare"]


@settings(max_examples=examples(300), deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), json_values))
def test_record_random_is_program_or_refused(record):
    try:
        program = program_from_record(record)
    except RecordError:
        return
    assert program.id and (program.cases or program.test)
