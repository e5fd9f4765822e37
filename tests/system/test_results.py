"""A guest's data in a result: plain values, whole characters, and the interpreter's reasons."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import pytest

import stockade

pytestmark = pytest.mark.needs("native")

REFUSED_VALUES = {
    "too large for a float": b"1e999",
    "infinite in a list": b'[1, {"a": -Infinity}]',
    "not a number": b"NaN",
    "more digits than are read": b"9" * 5000,
    "nested too deep to be copied": b"[" * 800 + b"]" * 800,
}


def reported(value: bytes, **options) -> stockade.Result:
    line = b'{"repr": "x", "value": ' + value + b"}\n"
    return stockade.run(f"import os\nos.write(3, {line!r})\nos._exit(0)", **options)


@pytest.mark.parametrize("name", REFUSED_VALUES)
def test_value_that_json_cannot_hold_is_refused(name):
    result = reported(REFUSED_VALUES[name])
    assert (result.outcome, result.value, result.value_repr) == ("completed", None, "x")
    json.dumps(result.as_json(), allow_nan=False)


def test_result_with_the_deepest_value_can_be_copied():
    result = reported(b"[" * 100 + b"]" * 100)
    assert str(result.value) == "[" * 100 + "]" * 100
    assert pickle.loads(pickle.dumps(result)).value == copy.deepcopy(result).value == result.value


def test_json_of_the_command_line_is_strict(tmp_path):
    script = tmp_path / "a.py"
    script.write_text(
        'import os\nos.write(3, b\'{"repr": "x", "value": [1e999, "\\\\ud800\\\\\\\\ud800"]}\\n\')\nos._exit(0)'
    )
    half = 'import os\nos.write(3, b\'{"repr": "x", "value": ["\\\\ud800", "\\\\\\\\ud800", "\\\\ud83d\\\\ude00"]}\\n\')\nos._exit(0)'
    for words, value in (([str(script)], None), (["-c", half], ["\ufffd", "\\ud800", "\U0001f600"])):
        done = subprocess.run(
            [sys.executable, "-m", "stockade", "run", "--json", *words], capture_output=True, check=True
        )
        data = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(name))
        assert (data["value"], data["value_repr"]) == (value, "x")


@pytest.mark.parametrize("on_output", ["truncate", "kill"])
@pytest.mark.parametrize("letter", ["\u00e9", "\u65e5", "\U0001f600"])
def test_omission_is_between_two_characters(letter, on_output):
    code = f"import sys\nfor stream in (sys.stdout, sys.stderr): print({letter!r} * 3000, file=stream)"
    for limit in range(2000, 2004):
        policy = stockade.Policy(limits={"output": limit}, on_output=on_output)
        result = stockade.run(code, policy=policy)
        for text in (result.stdout, result.stderr)[: 2 if on_output == "truncate" else 1]:
            assert text and "\ufffd" not in text, (limit, text)


def test_omission_leaves_bytes_that_are_not_text():
    """The control shows that bytes which were not UTF-8 before the cut stay visible as such."""
    code = "import sys\nsys.stdout.buffer.write(b'\\xff' * 9000)"
    assert "\ufffd" in stockade.run(code, policy=stockade.Policy(limits={"output": 1000})).stdout


def test_omission_on_the_command_line_is_between_characters():
    for limit in (1001, 1002, 1003):
        words = ["run", "--limit", f"output={limit}", "-c", "print('\u65e5' * 3000)"]
        done = subprocess.run([sys.executable, "-m", "stockade", *words], capture_output=True, check=True)
        head, tail = done.stdout.decode().split("\n[... ")
        count, tail = tail.split(" bytes omitted ...]\n")
        assert len(head.encode()) + int(count) + len(tail.encode()) == 9001


WITHOUT_REPR = [
    ("python", "10 ** 5000", "ValueError: Exceeds the limit (4300 digits)"),
    ("python", "class A:\n    def __repr__(self): raise KeyError('why')\nA()", "<repr failed: KeyError: 'why'>"),
    ("ruby", "class A; def inspect; raise 'why'; end; end\nA.new", "<inspect failed: RuntimeError: why>"),
    (
        "node",
        "({[require('util').inspect.custom]() { throw new TypeError('why') }})",
        "<inspect failed: TypeError: why>",
    ),
]


@pytest.mark.parametrize(
    ("language", "source", "words"),
    [pytest.param(*each, marks=[pytest.mark.needs(each[0])] * (each[0] != "python")) for each in WITHOUT_REPR],
)
def test_value_without_a_repr_says_why(language, source, words):
    assert words in stockade.run(source, language=language).value_repr


def test_error_without_a_message_says_so():
    result = stockade.run("class E(Exception):\n    def __str__(self): 1 / 0\nraise E()")
    assert result.error == stockade.GuestError("E", "<exception str() failed>", result.error.traceback)


@pytest.mark.needs("node")
def test_long_text_of_node_ends_with_a_whole_character():
    result = stockade.run("'x' + '\\u{1F600}'.repeat(40000)", language="javascript")
    assert result.value_repr.endswith("\U0001f600")
