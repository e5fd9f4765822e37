"""The short cuts of the Python agent have the same results as the long ways."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import traceback
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stockade.languages.agents import python_agent as agent
from tests.support.examples import examples

SCRIPT = "/job/main.py"
PROGRAMS = [
    "", "# nothing", "1+1", "x=3\nx*2", "'doc'", "'doc'\n__doc__", "x=1;x", "x = 1; 5", "s='a;b'", "s = 'a;b'\ns",
    "from __future__ import annotations\ndef f(a: Z): pass\nf.__annotations__",
    "from __future__ import annotations\nx: Foo = 1\ndef g(a: B): pass", "x: int = 5\ny: str = 'a'",
    "@print\ndef f(): pass", "@str\nclass A: pass", "x=(1,\n2)", "x=(\nprint(3)\n)", "print(1,\n  2)", "print(\n 1\n)",
    "\'\'\'\nprint(1)\'\'\'", '"""a\nb"""', "x=\'\'\'\nb\n\'\'\'\nx", "if 1:\n  x=\'\'\'\nabc\n\'\'\'\n  x",
    "if 1:\n  3", "if 0:\n  1\nelse:\n  2", "while 0:\n pass\nelse:\n 3", "try:\n  1/0\nexcept ZeroDivisionError:\n  5",
    "def f():\n  return 7\nf()  # c", "def f():\n  1/0\nif 1:\n  f()", "assert 1\n1/0", "a = 5\n\n\n", "(y:=5)",
    "print('a\\n')\n'b\\t'", "'\\d'", "'\\\\n'", "x = 1 \\\n+ 2\nx", "\ufeff1+1", "\ufeffx=1\nx", "é='ü'\né",
    "# -*- coding: latin-1 -*-\n'é'", "  1", "\n\n  \n1", "x=1\n\fx", "x=1\r\nx", "x=1\rx", "\0", "lambda: (yield)",
    "await x", "yield 1", "return 5", "x=1\n    # c\n  # d\n", "global z\nz=3\nz", "x=[1,\n2,\n]\n# end",
    "class A:\n  x=1\n  def f(self): return __class__", "match 3:\n  case 3: x = 1", "f'{1\n}'", "del x", "print 'x'",
    "x = 1\nx is 1", "1 if 1 else\\\n 2", "for i in range(2): i", "import os; os.sep\nos.sep", "if 1: pass\n;",
]  # fmt: skip


def effects(source: bytes, namespace: dict[str, object]) -> tuple[object, ...]:
    """Return all observable effects of a program."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            end: object = agent.run(source, SCRIPT, namespace)
        except BaseException as error:
            lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == SCRIPT]
            end = (type(error), str(error), lines)
    left = {name: str(value) for name, value in namespace.items() if name != "__builtins__"}
    return re.sub(r"0x\w+", "", str((end, left, output.getvalue()))), None


def fresh() -> dict[str, object]:
    return {"__builtins__": __builtins__, "__name__": "__main__", "__annotations__": {}}


def both_ways(monkeypatch: pytest.MonkeyPatch, source: bytes) -> list[object]:
    short = effects(source, fresh())
    with monkeypatch.context() as patch:
        patch.setattr(agent, "split", lambda *_: None)
        return [short, effects(source, fresh())]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", PROGRAMS)
def test_split_program_acts_like_whole_program(monkeypatch, source):
    short, long = both_ways(monkeypatch, source.encode("utf-8"))
    assert short == long


LINES = st.sampled_from([
    "x = 1", "x", "  x", "  y = 2", "if 1:", "else:", "def f():", "  return 3", "f()", "(", ")", "[1,", "2]", "\'\'\'", "#", "",
    "@type", "class A:", "  pass", "pass", "try:", "finally:", "x: int", "1/0", "x; y", "for x in (1, 2):", "print(1)", "lambda: 0",
    "from __future__ import annotations", "match x:", "  case 1:", "    y", "\\", "'\\n'", "return", "x if x else (", "global x",
])  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(300), deadline=None)
@given(st.lists(LINES, max_size=7))
def test_split_random_lines_act_like_whole_program(lines):
    with pytest.MonkeyPatch.context() as patch:
        short, long = both_ways(patch, "\n".join(lines).encode())
    assert short == long


@pytest.mark.parametrize(("source", "count"), [
    ("from __future__ import annotations\nprint(1 is 1)", 1), ("x = 1 is 1; y = 2", 1), ("x = \'\'\'\nprint(1 is 1) #\'\'\'\n", 0),
    ("1 is 1", 1), ("x = 1 is 1\nx", 1), ("'\\d'\n'\\w'", 2), ("x = 1\nprint('\\d' if x is 1 else 2)", 2), ("x = 1\nx", 0),
])  # fmt: skip
def test_split_warnings_come_once(source, count):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        effects(source.encode(), fresh())
    assert len(caught) == count


@pytest.mark.filterwarnings("ignore")
def test_split_parts_share_constants():
    for source in ("a = 1000\nassert a is 1000", "a = (1, 2)\nif a is (1, 2): b = 1\nassert b"):
        agent.run(source.encode(), SCRIPT, fresh())


def test_error_report_survives_removed_sys_names(monkeypatch):
    error = ValueError("a")
    for name in ("stderr", "__excepthook__"):
        with monkeypatch.context() as patch:
            patch.delattr(sys, name)
            assert agent.formatted(error) == "ValueError: a\n"


def test_split_accepts_common_programs():
    for source in (
        "print(1)",
        "def f():\n    return 1\nf()",
        "if __name__ == '__main__':\n    print('a\\n')",
        "x = [1,\n    2]",
    ):
        assert agent.split(source.encode(), SCRIPT) is not None


@pytest.mark.parametrize("value", [
    None, True, 1, -1.5, "é\ud800\"\\\n", [], {}, [1, [2, (3,)]], {"a": {1: None, False: 2, 3.5: "x"}}, 10**40, 1e300,
    float("nan"), float("inf"), {(1,): 2}, {1, 2}, b"x", object(), [object()], {"a": float("-inf")},
])  # fmt: skip
def test_dumps_values_equal_json_module(value):
    def encoded(dumps):
        try:
            return dumps(value)
        except (TypeError, ValueError) as error:
            return type(error)

    assert encoded(agent.dumps) == encoded(lambda value: json.dumps(value, allow_nan=False))
    assert agent.dumps({"after": 1}) == '{"after": 1}'


def test_dumps_refuses_circular_value_every_time():
    loop: list[object] = []
    loop.append(loop)
    for _ in range(2):
        with pytest.raises(ValueError, match="Circular"):
            agent.dumps(loop)


@pytest.mark.parametrize("source", [
    "1 / 0", "raise ValueError('a\\nb')", "assert False", "raise KeyError", "int('x')", "def f(): f()\nf()",
    "try:\n  1/0\nexcept ZeroDivisionError as e:\n  raise KeyError(2) from e",
    "raise ExceptionGroup('g', [ValueError(1)])", "raise SystemError('\ud800')", "def f(:", "'a", "  x",
])  # fmt: skip
def test_error_report_equals_traceback_module(source):
    with pytest.raises(BaseException) as caught:
        exec(compile(source, SCRIPT, "exec"), {})
    error = caught.value
    expected = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    assert agent.formatted(error) == expected
