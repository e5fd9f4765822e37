"""Programs print the same in a runtime as under CPython itself, of this version."""

import contextlib
import importlib
import io

import pytest
from examples.humaneval.problems import load

from stockade.embedded import Caps, Runtime, ScriptError
from tests.unit.embedded.differential import differences
from tests.unit.embedded.programs import PROGRAMS

CAPS = Caps(fuel=10**8, heap_objects=10**6, frames=200, deadline=30.0, symbols=10_000, value_bytes=10**7)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_prints_what_cpython_prints(name):
    plain = io.StringIO()
    with contextlib.redirect_stdout(plain):
        exec(compile(PROGRAMS[name], name, "exec"), {"__name__": "__main__"})
    runtime = Runtime(CAPS, in_process=True)
    runtime.run(PROGRAMS[name])
    assert runtime.stdout == plain.getvalue()


NOT_IN_SCRIPTS = {32: "'random' object has no attribute 'Random'", 160: "name 'eval' is not defined"}


def test_humaneval_solutions_run_unchanged_but_for_two():
    refused = {}
    for problem in load():
        try:
            Runtime(CAPS, in_process=True).run(f"{problem.reference}\n{problem.test}\ncheck({problem.entry_point})")
        except ScriptError as error:
            refused[problem.number] = error.message
    assert refused == NOT_IN_SCRIPTS


@pytest.mark.filterwarnings("ignore")
def test_generated_expressions_have_the_values_of_cpython():
    found = [text for number in range(40) for kind, text in differences(number) if kind == "unknown"]
    assert not found, "\n".join(found)


REFUSED_BY_CPYTHON = (
    "isinstance(1, None)", "isinstance('', (int, None))", "issubclass(int, None)", "isinstance([], list[int])", "isinstance(1, str | list[int])",
    "int | 5", "None | None", "str[0]", "int[:2]", "list(str)", "1 in str", "[*int]", "zip(str)", "sum(int)", "'a' % (int,)[0]",
    "str.upper(b'a')", "bytes.title('a')", "list.copy({})", "str.join(b'', [])", "float.as_integer_ratio(True)",
    "heapq.nlargest(2, [3, 1], 5)", "heapq.nsmallest(1, [3], ())", "heapq.nlargest(0, 5)", "int(5, None)", "format(value=1)", "format(1, '', 2)",
    "collections.Counter(None, None)", "collections.Counter().update([], None)", "operator.itemgetter()", "operator.attrgetter(1)",
    "operator.methodcaller(1)", "statistics.harmonic_mean({1})", "statistics.covariance(iter([1, 2]), [1, 2])", "re.sub('a', 5, 'b')",
    "re.sub('a', 'b', 'c', 10**30)", "json.JSONDecodeError(1)", "isinstance(1, typing.Optional)",
)  # fmt: skip
MODULES = "import collections, heapq, json, operator, re, statistics, typing\n"


@pytest.mark.parametrize("expression", REFUSED_BY_CPYTHON)
def test_expression_that_cpython_refuses_is_refused(expression):
    with pytest.raises((TypeError, OverflowError, AttributeError)):
        eval(expression, {name: importlib.import_module(name) for name in MODULES[7:-1].split(", ")})
    with pytest.raises(ScriptError, match=r"TypeError|OverflowError"):
        Runtime(Caps(fuel=10_000), in_process=True).run(MODULES + expression)


ALIKE = (
    "class A: pass\nprint([isinstance(x, A | None) for x in (A(), None, 1)], isinstance(1, int | str), issubclass(bool, None | int))",
    "print(int | str | None, (int | str) == (str | int), {int | str: 1}[str | int], int | int)",
    "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass S(Generic[T]):\n  x = 1\nprint(S[int]().x, list[int]([1]), dict[str, int](a=1))",
    "import heapq\nprint(heapq.nlargest(-1, [{}, {}]), heapq.nsmallest(0, [1], 5), heapq.nlargest(1, [1, 2]), round(17, True))",
    "import json\ntry: json.loads('[')\nexcept json.JSONDecodeError as e: print(e, e.msg, e.pos, e.lineno, e.colno, e.doc)",
    "from collections import OrderedDict\nprint(OrderedDict(a=1).fromkeys('b'))\nimport datetime\nprint(datetime.date(2020, 1, 1).isocalendar())",
    "def g():\n  try: yield 1\n  except GeneratorExit: print('closed')\nfor x in g(): break\nprint(datetime.timedelta(1) in range(3))".replace("print(d", "import datetime\nprint(d"),
)  # fmt: skip


@pytest.mark.parametrize("program", ALIKE)
def test_lines_print_what_cpython_prints(program):
    plain = io.StringIO()
    with contextlib.redirect_stdout(plain):
        exec(compile(program, "alike", "exec"), {"__name__": "__main__"})
    runtime = Runtime(CAPS, in_process=True)
    runtime.run(program)
    assert runtime.stdout == plain.getvalue()


def test_names_for_annotations_are_refused_as_classes():
    with pytest.raises(ScriptError, match="'Sequence' is only a name for annotations"):
        Runtime(in_process=True).run("from collections.abc import Sequence\nisinstance([], Sequence)")


def test_union_of_many_types_is_refused():
    source = "kinds = int\nfor i in range(100):\n  class A: pass\n  kinds = kinds | A"
    with pytest.raises(ScriptError, match="a union of more than 64 types"):
        Runtime(in_process=True).run(source)


def test_number_times_a_text_repeats_it():
    assert Runtime(in_process=True).run("n = 3\n[n * 'ab', 2 * b'c', 'd' * n]") == ["ababab", b"cc", "ddd"]
    with pytest.raises(ScriptError, match="unsupported operand"):
        Runtime(in_process=True).run("3 * None")


def test_value_too_large_for_a_machine_is_an_error_of_the_script():
    runtime = Runtime(in_process=True)
    assert runtime.run("try: 'a' * 10**40\nexcept MemoryError as e: text = str(e)\ntext").endswith("is refused")
    assert not runtime.is_dead
