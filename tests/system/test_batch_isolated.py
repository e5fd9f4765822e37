"""Tests in a separate sandbox: which values cross to the answer and back, and the verdict if one does not."""

from __future__ import annotations

import pytest

import stockade

pytestmark = [pytest.mark.needs("native"), pytest.mark.timeout(300)]


def judged(answer, test, tests="isolated", functions=("f",), **more):
    program = {"id": "x", "answer": answer, "test": test, "functions": [*functions], **more}
    (found,) = stockade.evaluate([program], tests=tests)
    return found


DATACLASS = "from dataclasses import dataclass, field\n@dataclass(order=True)\nclass Job:\n    at: int\n"
POOL = (
    "import multiprocessing, pickle\ndef square(x): return x * x\ndef f(xs):\n"
    " with multiprocessing.get_context({!r}).Pool(2) as pool: return pool.map(square, xs)"
)
PASSING = {
    "dataclass": (DATACLASS + "def f(ts): return min(Job(t) for t in ts).at", "assert f([4, 2]) == 2"),
    "dataclass with future annotations": (
        "from __future__ import annotations\n" + DATACLASS + "def f(ts): return min(Job(t) for t in ts).at",
        "assert f([4, 2]) == 2",
    ),
    "annotations that are no texts": (DATACLASS + "def f(): return Job.__annotations__['at'] is int", "assert f()"),
    "source of the answer": (
        "import inspect\nclass K:\n    x = 1\ndef f(): return inspect.getsource(K)",
        "assert f() == 'class K:\\n    x = 1\\n'",
    ),
    "pickle": (
        "import pickle\nclass A: x = 1\ndef f(): return pickle.loads(pickle.dumps(A())).x",
        "assert f() == 1",
    ),
    "pool of forked processes": (POOL.format("fork"), "assert f([1, 2]) == [1, 4]"),
    "pool of spawned processes": (POOL.format("spawn"), "assert f([1, 2]) == [1, 4]"),
    "dataclass in the test": ("def f(x): return x", DATACLASS + "assert f(Job(1).at) == 1"),
    "named tuple": (
        "from collections import namedtuple\nSpan = namedtuple('Span', 'low high')\ndef f(xs): return Span(min(xs), max(xs))",
        "assert f([3, 1, 2]) == (1, 3) and f([3, 1, 2]).high == 3 and repr(f([1])) == 'Span(low=1, high=1)'",
    ),
    "named tuple with renamed fields, and tuples with strange names": (
        "from collections import namedtuple\nRow = namedtuple('Row', 'x class', rename=True)\n"
        "class Odd(tuple): _fields = 'a',\nclass Twice(tuple): _fields = '\ufb01', 'fi'\n"
        "def f(): return Row(1, 2), Odd((3, 4)), Twice((5, 6))",
        "row, *others = f()\nassert (row.x, row._1) == (1, 2) and others == [(3, 4), (5, 6)]",
    ),
    "number of an enumeration": (
        "import enum\nclass E(enum.IntEnum): A = 3\ndef f(): return [E.A]",
        "assert f() == [3]",
    ),
    "large argument and value": (
        "def f(numbers): return numbers[::-1]",
        "assert f(list(range(60000))) == list(range(59999, -1, -1))",
    ),
    "more replies than the limit on output": (
        "def f(): return 'x' * 200_000",
        "for _ in range(9): assert len(f()) == 200_000",
    ),
    "list": ("def f(row): row[:] = sorted(row)", "row = [3, 1]\nassert f(row) is None and row == [1, 3]"),
    "set and dictionary": (
        "def f(d, s):\n d['k'] = [1]; del d['z']; s.add(5); s.discard(1)",
        "d, s = {'z': 0}, {1, 2}\nf(d, s)\nassert d == {'k': [1]} and s == {2, 5}",
    ),
    "subclass of a dictionary": (
        "def f(d): d['a'] += 1",
        "from collections import Counter\nc = Counter('a')\nf(c)\nassert c == Counter('aa') and type(c) is Counter",
    ),
    "alias of an argument": (
        "def f(a, b):\n a.append(1)\n return b",
        "a = []\nassert f(a, a) is a and a == [1]",
    ),
    "lists within lists": (
        "def f(g):\n g[0][0] = 9; g.append([7]); g[1] = g[0]",
        "g = [[1], [2]]\nrow = g[0]\nf(g)\nassert g == [[9], [9], [7]] and g[0] is row and g[1] is row",
    ),
    "list that holds itself": ("def f(a): a.append(a)", "a = [1]\nf(a)\nassert a[1] is a and len(a) == 2"),
    "change before an error": (
        "def f(a):\n a.append(1)\n raise ValueError('no')",
        "a = []\ntry:\n f(a)\n assert 0\nexcept ValueError: assert a == [1]",
    ),
    "error of a class of its own": (
        "class Lost(KeyError): pass\ndef f(): raise Lost('x')",
        "try:\n f()\n assert 0\nexcept KeyError: pass",
    ),
    "arguments of an error": (
        "class Two(Exception): pass\nclass Told(ValueError):\n def __str__(self): return 'told'\n"
        "def f(kind):\n kind == 'key' and {}['k']; kind == 'file' and open('/none')\n"
        " raise {'two': Two(1, 'b'), 'told': Told(5)}[kind]",
        "def told(kind):\n try: f(kind)\n except Exception as error: return error\n"
        "assert told('key').args == ('k',) and str(told('key')) == repr('k')\n"
        "file = told('file')\nassert isinstance(file, FileNotFoundError) and (file.errno, file.filename) == (2, '/none')\n"
        "assert told('two').args == (1, 'b') and str(told('told')) == 'told'",
    ),
    "values of the standard library": (
        "def f(x): return x",
        "import datetime, decimal, fractions, collections\n"
        "for v in (1j, decimal.Decimal('1.50'), fractions.Fraction(1, 3), datetime.date(2020, 1, 2),\n"
        "          datetime.datetime(2020, 1, 2, 3, 4, 5, 6), datetime.timedelta(-1, 5), range(3), bytearray(b'x'),\n"
        "          collections.deque([1], maxlen=5), 10 ** 5000, -10 ** 30, b'q', frozenset([(1, None)]),\n"
        "          collections.Counter('aab'), collections.OrderedDict([(2, 1), (1, 2)])):\n"
        "    assert type(f(v)) is type(v) and f(v) == v, v\n"
        "assert f(collections.Counter('aab')).most_common(1) == [('a', 2)]",
    ),
    "cases of unittest": (
        "def f(x): return x",
        "import unittest\nclass T(unittest.TestCase):\n @classmethod\n def setUpClass(cls): cls.v = 2\n"
        " def test_a(self): self.assertEqual(f(self.v), 2)\nif __name__ == '__main__': unittest.main()",
    ),
    "helper that is named as a test": ("def f(x): return x", "def test_one(n): assert f(n) == n\ntest_one(1)"),
}


@pytest.mark.parametrize("name", PASSING)
def test_right_answer_passes_isolated(name):
    found = judged(*PASSING[name])
    assert found.passed, found.reason


@pytest.mark.needs("root")  # an ordinary user's sandboxes have Debian's Python, which has no numpy
def test_numpy_numbers_cross_as_plain_numbers():
    answer = "import numpy as np\ndef f(xs): return [np.mean(xs), np.int64(3), np.bool_(True)]"
    found = judged(answer, "assert f([1, 2, 3]) == [2, 3, True] and type(f([1])[0]) is float")
    assert found.passed, found.reason


UNCROSSED = {
    "match": ("import re\ndef f(t): return re.match('ab', t)", "assert f('abc')", "re.Match"),
    "object of the answer": ("class A: pass\ndef f(): return [A()]", "assert f()", "a value of type A"),
    "object in an argument": ("def f(a): a.append(print)", "f([])", "builtin_function_or_method"),
    "time with a zone": (
        "import datetime as d\ndef f(): return d.datetime.now(d.timezone.utc)",
        "f()",
        "a datetime with a time zone",
    ),
    "function as an argument": ("def f(g): return g(1)", "assert f(lambda x: x) == 1", "a value of type function"),
    "too long an argument": (
        "def f(x): return 1",
        "f('x' * (20 << 20))",
        "where the bound for this limit on memory is",
    ),
    "too long a value": ("def f(): return 'x' * (20 << 20)", "f()", "where the bound for this limit on memory is"),
    "too deep a value": ("def f():\n v = []\n for _ in range(300): v = [v]\n return v", "f()", "more than 200 deep"),
}


@pytest.mark.parametrize("name", UNCROSSED)
def test_uncrossable_value_is_not_judged(name):
    answer, test, words = UNCROSSED[name]
    found = judged(answer, test)
    assert found.verdict == "not_judged" and words in found.reason and "tests='shared'" in found.reason, found


def test_broken_test_is_not_held_against_the_answer():
    found = judged("def f(n): return n * 2", "assert f(1")
    assert found.verdict == "not_tested" and found.reason.startswith("the test does not compile: '(' was never"), found


def test_uncrossable_value_does_not_satisfy_raises():
    """Otherwise an answer that returns an object would pass a test which expects an error."""
    found = judged("def f(): return print", "try:\n f()\n assert 0\nexcept BaseException: pass")
    assert found.verdict == "not_judged"


NOTHING = {
    "nothing": ("x = 1", "calls none of the answer's functions"),
    "a fixture": ("def test_a(tmp_path): assert f(1) == 2", "test_a() takes 'tmp_path'"),
    "a branch not taken": ("if False:\n assert f(1) == 2", "calls none of the answer's functions"),
    "an empty loop": ("for n in []: assert f(n) == 2", "calls none of the answer's functions"),
    "a class without tests": ("class Test: pass", "calls none of the answer's functions"),
}
WRONG = {
    "function": "def test_a(): assert f(2) == 4",
    "asynchronous function": "async def test_a(): assert f(2) == 4",
    "check without entry_point": "def check(candidate): assert candidate(2) == 4",
    "class": "class TestF:\n def test_a(self): assert f(2) == 4",
    "case of unittest": "import unittest\nclass T(unittest.TestCase):\n def test_a(self): self.assertEqual(f(2), 4)",
    "function after a call": "f(1)\ndef test_a(): assert f(2) == 4",
}


@pytest.mark.parametrize("tests", ["isolated", "shared"])
@pytest.mark.parametrize("name", NOTHING)
def test_test_without_calls_is_not_tested(name, tests):
    test, words = NOTHING[name]
    found = judged("def f(n): return n * 3", test, tests)
    assert found.verdict == "not_tested" and words in found.reason, found


@pytest.mark.parametrize("tests", ["isolated", "shared"])
@pytest.mark.parametrize("name", WRONG)
def test_defined_tests_are_found_and_run(name, tests):
    assert judged("def f(n): return n * 3", WRONG[name], tests).verdict == "wrong_output"
    assert judged("def f(n): return n * 2", WRONG[name], tests).verdict == "passed"


@pytest.mark.parametrize("end", ["unittest.main()", "import sys; sys.exit()", "raise SystemExit(0)"])
def test_test_that_exits_is_judged(end):
    case = f"import unittest\nclass T(unittest.TestCase):\n def test_a(self): self.assertEqual(f(2), 4)\n{end}"
    assert judged("def f(n): return n * 2", case).verdict == "passed"
    assert judged("def f(n): return n * 3", case).verdict == "wrong_output"
    assert judged("def f(n): return n", "if f(1) == 1: raise SystemExit(3)").verdict == "failed"


@pytest.mark.parametrize("tests", ["isolated", "shared"])
def test_bare_assertion_is_shown_in_reason(tests):
    found = judged(
        "def f(n): return n", "def check_it(n):\n    assert (\n        f(n)\n        == n * 2)\ncheck_it(3)", tests
    )
    assert found.verdict == "wrong_output" and found.reason.endswith("AssertionError: assert ( f(n) == n * 2)")


def test_answer_without_the_function_says_so():
    found = judged("def g(n): return n", "assert f(1) == 1")
    assert (found.verdict, found.reason.partition("NameError: ")[2]) == ("failed", "the answer defines no 'f'")


def test_answer_output_flood_meets_limit():
    policy = stockade.Policy(limits={"output": 10_000}, on_output="kill")
    for size, verdict in ((9_000, "passed"), (100_000, "limit_exceeded")):
        program = {"id": "x", "answer": f"def f(): print('x' * {size})", "test": "f()", "functions": ["f"]}
        (found,) = stockade.evaluate([program], policy=policy)
        assert (found.verdict, found.limit) == (verdict, "output" if verdict != "passed" else None), found


FORGED_REPLIES = {
    "a change of what is no argument": '["t","returned",1,["l",["t",99,["l",5]]]]',
    "a change of a type": '["t","returned",1,["l",["t",0,["d"]]]]',
    "a reference to nothing": '["t","returned",["r",99]]',
    "a negative reference": '["t","returned",["r",-1]]',
    "a class by name": '["t","returned",["T","os.system","x"]]',
    "an error that is a verdict": '["t","raised",["t","SystemExit"],"0"]',
    "an assertion of the test": '["t","raised",["t","AssertionError"],"passed"]',
    "a verdict": '["t","passed","passed"]',
}


@pytest.mark.parametrize("name", FORGED_REPLIES)
def test_forged_reply_never_passes(name):
    """The first call begins with the module's own descriptor for replies, which an answer can find."""
    line = FORGED_REPLIES[name]
    answer = (
        "import os\ndef f(x):\n for fd in range(3, 20):\n  try: os.write(fd, "
        f"{line.encode() + bytes([10])!r})\n  except OSError: pass\n return 0"
    )
    found = judged(answer, "a = [1]\nassert f(a) == 1 and a == [1]")
    assert found.verdict in ("failed", "wrong_output"), found


def test_unjudged_samples_not_counted_in_pass_at_k():
    from stockade.batch.summary import Summary

    summary = Summary()
    for number, test in enumerate(("assert f() == 1", "assert f() == 2", "x = 1", "f(print)"), 1):
        (found,) = stockade.evaluate(
            [{"id": str(number), "problem": "p", "answer": "def f(*a): return 1", "test": test, "functions": ["f"]}]
        )
        summary.add(found.as_json())
    assert summary.solved() == {"p": (2, 1)}
    assert summary.as_json([1])["verdicts"] | {"not_tested": 1, "not_judged": 1} == summary.as_json([1])["verdicts"]
