"""Makes hostile scripts from a number: scripts of the corpus in other places, with other values, and scripts of its own."""

import re
from random import Random

from stockade.embedded.weave.names import DEFINABLE
from tests.unit.embedded.escapes import ESCAPES
from tests.unit.embedded.hostile import EXHAUSTION, NESTS, PARSING, PRICED

SCRIPTS = [source for _, source, *_ in [*EXHAUSTION, *ESCAPES, *PRICED] if len(source) < 4000]
LONG = [source for _, source, *_ in PARSING]
LITERALS = (
    "0", "-1", "1.5", "True", "None", "10**6", "-(2**70)", "1 << 3000", "''", "'\\ud800'", "'\\0'", "b'\\xff'", "[]", "{}", "(1,)", "print",
    "int", "iter(int, 1)", "range(10**12)", "float('nan')", "lambda *a: f()", "Ellipsis", "Odd()", "Odd", "(i for i in Odd())",
)  # fmt: skip
BROKEN = (
    "\ud800",
    "\udfff",
    "\0",
    "\u202e",
    "\ufeff",
    "\u2028",
    "é",
    "\U0001f600",
    "\x1b[2J",
    "ℌ",
    "ﬁ",
    "\\",
    "'",
    "\t",
)
RAISED = ("ValueError(self)", "StopIteration", "KeyError(self)", "RecursionError", "MemoryError", "BaseException", "Odd()", "AttributeError('x', self)", "HostError('x')")  # fmt: skip
RETURNED = ("self", "None", "NotImplemented", "-1", "10**20", "1.5", "'x' * 5000", "iter(int, 1)", "[self]", "self.kept", "fetch('b')", "f()", "(yield self)")  # fmt: skip
USES = (
    "len(x)", "list(x)", "x + x", "x == [x]", "x < 1", "hash(x)", "{x: x}", "f'{x!r:>{x}}'", "str(x)", "repr([x])", "x[0]", "x[x:x]", "x()", "1 in x",
    "sorted([x, 1, x])", "max(x, x)", "sum([x, x])", "int(x)", "round(x)", "x ** x", "-x", "bool(x)", "[*x]", "print(x, sep=x)", "dict(x)", "fetch(x)", "x",
    "json.dumps([x], default=lambda v: v)", "copy.deepcopy([x, x])", "format(x, 'd')", "'%s' % x", "'{}'.join([x])", "range(x)", "[1][x]", "x @ x", "next(x)",
    "functools.reduce(lambda a, b: a + b, [x, x])", "heapq.heapify([x, x])", "Counter([x])[x]", "math.floor(x)", "isinstance(x, x)", "statistics.mean([x])",
    "re.sub('a', x, 'aa')", "getattr(x, 'kept')", "setattr(x, 'kept', x)", "bytes(x)", "x.kept.missing", "deque([x], x)", "Decimal(x)", "itertools.tee(x, x)",
)  # fmt: skip
IMPORTS = "import json, copy, functools, heapq, math, statistics, re, itertools, contextlib\nfrom collections import Counter, deque\nfrom decimal import Decimal\n"
START = (
    IMPORTS
    + "def f(*a, **k): return f(*a)\nclass Odd:\n  kept = [0]\n  def __getitem__(self, i): return self\n  def __index__(self): return 7\n"
)
_ENDS = {
    "try:": "except BaseException: fetch('a')",
    "class H:\n": "H()",
    "def h():\n": "for _ in [*h()]: pass",
    "def h():": "h()",
}


class Mutator:
    """Writes one hostile script. The same number gives the same script on every Python."""

    def __init__(self, number):
        self.random = Random(number)

    def script(self):
        """Return the source of the script."""
        kind = self.random.randrange(20)
        if kind == 0:
            return self._cut(self.random.choice(LONG))
        if kind < 6:
            source = self._of_methods()
        elif kind < 9:
            source = self._late()
        elif kind == 9:
            source = self._nest()
        else:
            source = self.random.choice(SCRIPTS)
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            source = self.random.choice((self._value, self._place, self._lines, self._followed, self._characters))(
                source
            )
        return source

    def _of_methods(self):
        pick, choice = self.random.randrange, self.random.choice
        lines = [START + f"class X{choice(['', '(Exception)', '(Odd)', '(ValueError)'])}:", "  kept = [1]"]
        for name in self.random.sample(sorted(DEFINABLE), pick(1, 12)):
            does = choice(
                (
                    f"raise {choice(RAISED)}",
                    f"return {choice(RETURNED)}",
                    f"self.kept.append(self); return {choice(RETURNED)}",
                    f"return {choice(USES).replace('x', 'self')}",
                )
            )
            lines.append(f"  def {name}(self, *a, **k): {does}")
        lines.append(choice(("x = X()", "x = X", "x = [X(), X()]", "x = X(); x.kept = x")))
        for _ in range(pick(1, 8)):
            use = choice(USES)
            lines.append(
                choice(
                    (
                        f"try: {use}\nexcept BaseException as e: last = e",
                        f"try: {use}\nfinally: {choice(USES)}",
                        f"{use}",
                    )
                )
            )
        return "\n".join(lines)

    def _late(self):
        """Return a script whose generators and contexts end late: after an error, a limit, or the script itself."""
        end = self.random.choice(
            (
                "while True: pass",
                "yield 2",
                "raise BaseException(1)",
                "f()",
                "kept.append(g())",
                "fetch(1)",
                "x = 'a' * 10**6",
                "return",
            )
        )
        use = self.random.choice(
            (
                "next(kept[0])",
                "for i in kept[0]: break",
                "kept.clear()",
                "kept[0].close()",
                "kept[0].throw(ValueError)",
                "list(zip(*kept))",
                "kept[0].send(kept[0])",
                "kept[0] = 1",
                "f()",
                "1 / 0",
            )
        )
        handler = self.random.choice(("finally", "except GeneratorExit", "except BaseException", "except"))
        return (
            START
            + f"def g():\n  try:\n    yield 1\n  {handler}:\n    {end}\nkept = [g() for i in range(20)]\nfor each in kept: next(each)\n{use}"
        )

    def _nest(self):
        made, depth = (
            self.random.choice([*NESTS.values(), "[g]", "(g, g)", "{1: g}", "Counter({1: g})", "lambda: g()"]),
            10 ** self.random.randrange(2, 6),
        )
        end = self.random.choice(
            ("g", "repr(g)", "g == g", "copy.deepcopy(g)", "next(iter(g))", "json.dumps(g)", "g = None", "hash(g)")
        )
        return f"from collections import defaultdict\n{START}g = ()\nfor _ in range({depth}): g = {made}\n{end}"

    def _value(self, source):
        """Put another value in the place of a literal."""
        places = list(re.finditer(r"\b\d[\d_]*(?:\.\d+)?\b|'[^'\n]*'|\bNone\b", source))
        if not places:
            return source
        place = self.random.choice(places)
        return START + source[: place.start()] + self.random.choice(LITERALS) + source[place.end() :]

    def _place(self, source):
        """Put the script into another place: a function, a class, a handler, a method, or a generator."""
        head = self.random.choice((
            "def h():", "class H:", "for _ in range(3):", "try:", "while True:", "if 1:", "with contextlib.suppress(BaseException):",
            "class H:\n def __init__(self):", "def h():\n yield", "def h():\n try: yield\n finally:",
        ))  # fmt: skip
        body = "\n".join("   " + line for line in source.split("\n"))
        end = next(
            (end for start, end in _ENDS.items() if head.startswith(start) and ("yield" in head) == ("*" in end)), ""
        )
        return f"{START}{head}\n{body}\n{end}"

    def _lines(self, source):
        lines = source.split("\n")
        place = self.random.randrange(len(lines))
        if self.random.randrange(2):
            del lines[place]
        else:
            lines.insert(self.random.randrange(len(lines)), lines[place])
        return "\n".join(lines)

    def _followed(self, source):
        return source + "\n" + self.random.choice(SCRIPTS)

    def _characters(self, source):
        for _ in range(self.random.randrange(1, 4)):
            place = self.random.randrange(len(source) + 1)
            source = source[:place] + self.random.choice(BROKEN) + source[place + self.random.randrange(3) :]
        return source

    def _cut(self, source):
        place = self.random.randrange(len(source))
        return source[:place] if self.random.randrange(2) else source[: place // 4] + source


def script(number):
    """Return the hostile script with this number."""
    return Mutator(number).script()
