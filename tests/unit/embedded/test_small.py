"""Variables that need no test: of loops over ranges, and texts. Woven code trusts one only if nothing else binds it."""

import ast
import contextlib
import io
from collections import Counter

import pytest

from stockade.embedded import Caps, ResourceExhausted, Runtime
from stockade.embedded.weave import scope
from stockade.embedded.weave.small import MOST_BITS, Small, bindings, small
from tests.unit.embedded.generated import program

CAPS = Caps(fuel=10**6, frames=300, deadline=60.0, value_bytes=10**6)

EMPTY = "range = lambda n: [T] if n else REAL(0)\nfor n in (1, 0):\n"
BINDINGS = {
    "assignment": "for i in range(2):\n  i = T\n  i * 1000",
    "tuple": "for i in range(2):\n  i, j = T, 1\n  i * 1000",
    "annotation": "for i in range(2):\n  i: str = T\n  i * 1000",
    "walrus": "for i in range(2):\n  if (i := T): i * 1000",
    "walrus in a comprehension": "for i in range(2):\n  [i := T for _ in range(1)]\n  i * 1000",
    "with": "for i in range(2):\n  with Context() as i: i * 1000",
    "match": "for i in range(2):\n  match T:\n    case i: i * 1000",
    "star in match": "for i in range(2):\n  match [T] * 1000:\n    case [*i]: i * 1000",
    "import": "for i in range(2):\n  from string import ascii_letters as i\n  i * 100_000",
    "another loop": "for i in range(2):\n  for i in [T]: i * 1000",
    "inner function": "for i in range(2):\n  def g():\n    nonlocal i\n    i = T\n  g()\n  i * 1000",
    "global": "global i\nfor i in range(2):\n  g()\n  i * 1000",
    "parameter": "def g(i=T):\n  for j in (0, 1):\n    i * 1000\n    for i in range(1): pass\ng()",
    "range of the script": "range = lambda n: [T]\nfor i in range(1): i * 1000",
    "behind an empty loop": f"{EMPTY}  for i in range(n): pass\n  if not n: i * 1000",
    "late lambda": f"{EMPTY}  for i in range(n): late = lambda: i * 1000\nlate()",
    "late generator": f"{EMPTY}  for i in range(n): late = (i * 1000 for _ in T)\nnext(late)",
    "sum behind an empty loop": f"{EMPTY}  for i in range(n): k = i * 2\n  if not n: k * 1000",
    "sum of an earlier turn": f"{EMPTY.replace('REAL(0)', 'REAL(1)')}  for i in range(n):\n    if not n: k * 1000\n    k = i * 2",
    "clause": "[i * 1000 for i in range(1) for i in [T]]",
    "range of the script in a clause": "range = lambda n: [T]\n[i * 1000 for i in range(1)]",
    "inner comprehension": "[[i * 1000 for i in [T]] for i in range(1)]",
    "lambda": "for i in range(1): (lambda i: i * 1000)(T)",
    "name of a sum": "for i in range(2):\n  k = i * 2\n  k = T\n  k * 1000",
}
BEFORE = """
REAL, T = range, 'a' * 5000
class Context:
    def __enter__(self): return T
    def __exit__(self, *details): pass
def g():
    global i
    i = T
"""


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in BINDINGS.items()])
def test_variable_that_something_else_binds_is_guarded(body):
    lines = "".join(f"\n    {line}" for line in body.splitlines())
    with pytest.raises(ResourceExhausted, match="value_bytes"):
        Runtime(CAPS, in_process=True).run(f"{BEFORE}def f():{lines}\nf()")


ADDED = "  try: s += 'c'\n  except TypeError as e: print(e)"
FUNCTIONS = {
    "negative": "for i in range(3, -4, -1): print(i, i % 3, i // 2, -i * i, i - 7, {i: 1}, f'{i} {i + 1}', str(i))",
    "large bounds": "for i in range(2**100, 2**100 + 3): print(i * i, i % 7, i + i, str(i), [i][0])",
    "huge bounds": "for i in range(2**4000, 2**4000 + 2): print(i * i * i % 1000007)",
    "at the bound": "for i in range(2**62 - 2, 2**62 + 2): print(i * i * i * i * i, i + 2)",
    "below the bound": "for i in range(2**62 - 3, 2**62 - 1): print(i * i * i * i * i * i, i % 1000 * i)",
    "sums": "t = 0\n  for i in range(50):\n    k = i * i % 7\n    m = k * i + 1\n    t += m * m - k\n    print(t, k, m, str(k))",
    "grows": "t = 1\n  for i in range(90):\n    t += t\n    t += i\n  print(t)",
    "zero": "for i in range(2):\n    try: print(1 // i)\n    except ZeroDivisionError as e: print(e)",
    "comprehension": "print([x * y - x for x in range(9) if x % 2 for y in range(x) if y * y < 20], {x % 5: x for x in range(9)})",
    "float": "t = 0.5\n  for i in range(5):\n    t += i * i\n  print(t)",
    "text": "t = ''\n  for i in range(5):\n    t += str(i * i)\n    t += f'{i}'\n  print(t)",
    "texts": "s = ''\n  for i in 1, 2:\n    s += 'a'\n    s += f'{i}{s}'\n  print(s)",
    "text, then a number": f"s = 'a'\n  s += 'b'\n  s = 1\n{ADDED}",
    "text of a parameter": f"def g(s):\n  {ADDED.replace(chr(10), chr(10) + '  ')}\n  g(1)",
    "text bound inside": f"s = 'a'\n  def g():\n    nonlocal s\n    s = 1\n  g()\n{ADDED}",
    "text bound in a field": f"s = 'a'\n  s += f'{{(s := 1)}}'\n  s += f'{{(s := 1)}}'\n  s = 1\n{ADDED}",
    "text in a loop": f"for s in (1, 2):\n  {ADDED.replace(chr(10), chr(10) + '  ')}",
    "text unbound": "def g():\n    if 0: s = 'a'\n    s += 'b'\n  try: g()\n  except UnboundLocalError as e: print(e)",
    "unbound": "try:\n    for i in range(0): pass\n    print(i)\n  except UnboundLocalError as e: print(e)",
    "generator": "def g():\n    for i in range(4):\n      got = yield i * i\n      if got: return got\n  print(list(g()))",
    "dropped at once": (
        "def range(n):\n    try: yield from (1, 2)\n    finally: print('closed')\n"
        "  for i in range(1):\n    if i * i: break\n  print('after')"
    ),
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in FUNCTIONS.items()])
@pytest.mark.parametrize("large", ["", "large = 3 ** 9000\n"], ids=["", "with a large integer"])
def test_function_prints_what_cpython_prints(body, large):
    source = f"{large}def f():\n  {body}\nf()"
    plain = io.StringIO()
    with contextlib.redirect_stdout(plain):
        exec(source, {})
    assert metered(source)[0] == plain.getvalue()


def test_text_that_always_is_one_ends_by_the_cap_on_value_bytes():
    source = "def f():\n  s = ''\n  for i in range(10**5): s += 'abcdefgh'\nf()"
    with pytest.raises(ResourceExhausted) as caught:
        Runtime(Caps(fuel=10**6, value_bytes=10_000), in_process=True).run(source)
    assert caught.value.cap == "value_bytes"


def test_fuel_is_the_same_without_flags(monkeypatch):
    sources = [
        f"{large}def f():\n  {body}\nf()" for body in FUNCTIONS.values() for large in ("", "large = 3 ** 9000\n")
    ]
    sources += [program(number) for number in range(12)]
    flagged = list(map(metered, sources))
    monkeypatch.setattr(scope, "bindings", lambda node: Counter())
    assert [metered(source, "without flags") for source in sources] == flagged


def metered(source, filename="script.py"):
    runtime = Runtime(CAPS, in_process=True)
    runtime.run(source, filename)
    return runtime.stdout, runtime.usage.fuel


def test_bindings_count_every_text_that_could_bind_a_name():
    source = "def f(a, a2):\n  import b as b2, c\n  global d\n  try: e = a.x\n  except E as g: h(k=1)\n  del m\n  for n in p: n += 1\n  match q:\n    case [r, *s] | {1: t, **u}: pass"
    once = ["f", "a", "a2", "b", "b2", "c", "d", "e", "g", "m", "r", "s", "t", "u"]
    assert bindings(ast.parse(source)) == Counter([*once, "n", "n"])


@pytest.mark.parametrize(
    ("source", "bits"),
    [
        ("i", 62), ("i + 1", 63), ("i - j", 63), ("i * j", 124), ("i % 7 * j", 125), ("i // j", 63), ("i * i * i * i", 248),
        ("i * i * i * i * i", None), ("i ** 2", None), ("i << 1", None), ("i / 2", None), ("i + k", None), ("i + 0.5", None),
        ("i + 'a'", None), ("i + (j := 1)", None), ("i + True", None), ("f(i)", None), ("-i", None), ("3", 2), ("-3", 2),
    ],
)  # fmt: skip
def test_small_bounds_plain_arithmetic(source, bits):
    known = {"i": Small(frozenset({"$1"}), 62), "j": Small(frozenset({"$2"}), 62)}
    found = small(ast.parse(source, mode="eval").body, known)
    assert (found.bits if found else None) == bits
    assert bits is None or bits <= MOST_BITS
