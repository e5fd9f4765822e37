"""The checker of Python source, in this process; ``tests/system/test_check.py`` runs it in a sandbox."""

from __future__ import annotations

import sys
import textwrap

import pytest

from stockade.advice.isolated.checker import MOST, check


def found(source: str, *files: str) -> list[tuple[int, str]]:
    return [(line, kind) for line, _, kind, _ in check(textwrap.dedent(source).encode(), files, sys.path)]


ENDLESS = [
    "while True: pass",
    "while 1:\n    print(1)",
    "while True:\n    for a in b:\n        break",
    "while True:\n    def f(): return 1",
    "while True:\n    try:\n        f()\n    except ValueError:\n        pass",
    "try:\n    while True: pass\nexcept KeyboardInterrupt:\n    pass",
    "n = 3\nwhile n > 0:\n    print(n)",
    "def f(todo):\n    while todo:\n        print(1)",
    "import itertools\nfor n in itertools.count():\n    print(n)",
    "from itertools import repeat as r\nfor n in r(1):\n    print(n)",
    "for item in items:\n    items.append(item)",
]
ENDING = [
    "while True:\n    break",
    "while True:\n    for a in b:\n        pass\n    else:\n        break",
    "def f():\n    while True:\n        return",
    "def f():\n    while True:\n        yield 1",
    "async def f():\n    while True:\n        await g()",
    "import sys\nwhile True:\n    sys.exit()",
    "try:\n    while True: d.popitem()\nexcept KeyError:\n    pass",
    "while False: pass",
    "while n > 0:\n    n -= 1",
    "while n > 0:\n    if (n := f()): pass",
    "while n > 0:\n    for n in x: pass",
    "while n > 0:\n    import os as n",
    "while todo:\n    todo.pop()",
    "pop = todo.pop\nwhile todo:\n    pop()",
    "def stop():\n    global on\n    on = 0\nwhile on > 0:\n    f()",
    "while f(): pass",
    "while a.b: pass",
    "from itertools import repeat\nfor n in repeat(1, 3): pass",
    "import itertools\nfor n in itertools.count():\n    if n: break",
    "for item in items:\n    items = []\n    items.append(item)",
]


@pytest.mark.parametrize("source", ENDLESS)
def test_check_names_endless_loops(source) -> None:
    assert [kind for _, kind in found(source)] == ["loop"]


@pytest.mark.parametrize("source", ENDING)
def test_check_passes_loops_with_a_way_out(source) -> None:
    assert found(source) == []


def test_check_names_calls_through_imports() -> None:
    source = "import os as o\nfrom subprocess import run as r\nimport os.path\no.system('x')\nr(['x'])\nos.fork()\n"
    assert found(source) == [(4, "call"), (5, "call"), (6, "call")]
    assert found("eval('1')\n__import__('os')") == [(1, "call"), (2, "call")]
    assert found("def eval(x): return x\neval('1')\nx.system('y')\nself.os.system('y')") == []


def test_check_names_patterns_with_their_flags() -> None:
    assert found("import re\nre.sub(r'(a+)+$', '', x)\nre.compile(pattern)\nfoo.match('(a+)+$')") == [(2, "pattern")]
    assert found("import re\nre.match('(a +)+ b', x)") == []
    assert found("import re\nre.match('(a +)+ b', x, re.I | re.X)") == [(2, "pattern")]
    assert found("import re\nre.fullmatch('(a+)+', x)\nre.match('(a+)+', x)") == [(2, "pattern")]


def test_check_names_missing_imports() -> None:
    source = """\
    import os, no_such_module.part
    from no_other import thing
    from . import sibling
    import helper, package.module
    try:
        import no_third
    except ImportError:
        no_third = None
    """
    assert found(source, "helper.py", "package/module.py") == [(1, "import"), (2, "import"), (3, "import")]


def test_check_column_counts_characters() -> None:
    ((line, column, _, _),) = check("é = 'ü'; eval('1')".encode(), (), [])
    assert (line, column) == (1, 10)
    ((line, column, _, _),) = check("# coding: latin-1\né = 'ü'; eval('1')".encode("latin-1"), (), [])
    assert (line, column) == (2, 10)


@pytest.mark.parametrize(
    "source",
    [b"(", b"x\0", b"\xff", b"(" * 10_000, b"-" * 100_000 + b"1", b"a" + b".a" * 100_000, b"# coding: nonsense\n"],
)
def test_check_source_that_is_not_python_is_one_piece_of_advice(source) -> None:
    ((line, column, kind, _),) = check(source, (), [])
    assert kind == "syntax" and min(line, column) >= 1


def test_check_advice_is_bounded() -> None:
    assert len(check(b"while True: pass\n" * (MOST + 10), (), [])) == MOST
