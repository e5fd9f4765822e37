"""Compares runtimes with CPython over generated expressions: methods, operators, functions, formats, statements.

``python -m tests.unit.embedded.differential --programs 5000 --start 0`` prints each difference that is not in ``REFUSALS``.
A value where CPython has another one, or raises, is never in there.
"""

import argparse
import contextlib
import functools
import io
import re
from collections import Counter
from random import Random

from stockade.embedded import Caps, Runtime

CAPS = Caps(fuel=10**9)
LINES = 40
START = """
from collections import Counter, OrderedDict, defaultdict, deque
from fractions import Fraction
from decimal import Decimal
import collections, fractions, decimal, itertools, functools, operator, math, statistics, re, json, string, textwrap, datetime, base64, heapq, bisect, copy
class Index:
    def __index__(self): return 2
    def __repr__(self): return 'Index'
    def __hash__(self): return 2
class Odd:
    def __repr__(self): return 'Odd'
    __hash__ = None
    def __bool__(self): return False
    def __eq__(self, other): return True
ITERATORS = 'map zip filter enumerate reversed chain generator accumulate islice zip_longest pairwise compress callable'.split()  # noqa: SIM905
def show(make):
    try:
        value = make()
        if type(value).__name__ in ITERATORS or 'iterator' in type(value).__name__:
            value = list(itertools.islice(value, 50))
        print('=', type(value).__name__, repr(value)[:400].replace('\\n', ' '))
    except Exception as error:
        print('!', type(error).__name__, str(error)[:200].replace('\\n', ' '))
"""
VALUES = {
    "int": "0 1 -1 2 7 -13 255 1000 12345678901234567890 -(10**40) True".split(),  # noqa: SIM905
    "float": "0.0 -0.5 1.5 2.0 1e300 -1e-7 float('inf') float('nan')".split(),  # noqa: SIM905
    "str": ["''", "'a'", "'abcabc'", "'Hello, World'", "'  x y  '", "'é\\u4e2d'", "'1,2,,3'", "'42'", "'{} {!r:>5}'", "'%s-%05d'", "'a\\nb\\r\\nc'", "'ß'"],
    "bytes": ["b''", "b'abc'", "b' a b '", "b'\\xff\\x00'", "b'616263'"],
    "list": ["[]", "[1, 2, 3]", "[3, 1, 2, 1]", "['b', 'a']", "[[1], [2, 3]]", "[1, 'a', None]", "[0.5, 2, True]", "[(1, 'x'), (2, 'y')]"],
    "tuple": ["()", "(1,)", "(1, 2, 3)", "('a', 1)", "((1, 2), (3, 4))"],
    "dict": ["{}", "{'a': 1, 'b': 2}", "{1: 'x', 2.0: 'y'}", "{'k': [1, 2]}", "Counter('abca')", "OrderedDict(a=1)", "defaultdict(list, {1: [2]})"],
    "set": ["set()", "{1, 2, 3}", "frozenset({2, 3, 4})", "{'a'}"],
    "function": ["int", "str", "list", "(int, str)", "ValueError", "(lambda *a: 0)", "(lambda v: v)", "Odd()", "Index()"],
    "other": ["None", "range(5)", "range(10, 0, -3)", "deque([1, 2, 3])", "Fraction(1, 3)", "Decimal('1.50')", "datetime.date(2024, 2, 29)", "datetime.timedelta(1, 2, 3)", "datetime.datetime(2024, 2, 29, 12)"],
}  # fmt: skip
METHODS = {
    "str": "capitalize casefold center count encode endswith expandtabs find format index isalnum isalpha isascii isdecimal isdigit isidentifier "
    "islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind rindex "
    "rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill",
    "bytes": "capitalize center count decode endswith find hex index join ljust lower lstrip partition replace rfind rsplit split startswith strip upper zfill",
    "list": "append clear copy count extend index insert pop remove reverse sort",
    "tuple": "count index",
    "dict": "clear copy get items keys pop popitem setdefault update values",
    "set": "add clear copy difference discard intersection isdisjoint issubset issuperset pop remove symmetric_difference union update",
    "int": "bit_count bit_length conjugate as_integer_ratio to_bytes",
    "float": "as_integer_ratio hex is_integer conjugate",
}  # fmt: skip
BUILTIN = """
abs all any ascii bin bool bytes callable chr complex dict divmod enumerate filter float format frozenset getattr hasattr hex int isinstance
issubclass iter len list map max min next oct ord range repr reversed round set setattr sorted str sum tuple type zip
""".split()  # noqa: SIM905
MODULES = (
    "math",
    "statistics",
    "itertools",
    "functools",
    "operator",
    "json",
    "re",
    "textwrap",
    "base64",
    "heapq",
    "bisect",
    "copy",
    "string",
    "collections",
    "fractions",
    "decimal",
    "datetime",
)
LEFT_OUT = {
    "math.perm", "math.comb", "math.factorial", "math.lcm", "math.prod",  # numbers above what CPython can finish
    "itertools.count", "itertools.cycle", "itertools.repeat", "itertools.permutations", "itertools.product", "itertools.tee",
    "itertools.combinations", "itertools.combinations_with_replacement", "itertools.batched", "operator.pow", "operator.lshift", "operator.mul",
    "re.error", "json.JSONDecodeError", "statistics.StatisticsError", "copy.error", "collections.namedtuple", "re.compile", "re.finditer",
    "functools.partial", "functools.cache", "functools.lru_cache", "functools.wraps", "functools.cmp_to_key", "functools.total_ordering",
    "operator.itemgetter", "operator.attrgetter", "operator.methodcaller", "textwrap.fill", "textwrap.wrap", "textwrap.shorten",
}  # fmt: skip
"""Functions whose work in CPython has no bound here, or whose result is an object of which each side shows another text."""
KEYWORDS = (
    "key",
    "key",
    "default",
    "start",
    "reverse",
    "strict",
    "initial",
    "fillvalue",
    "lo",
    "cum_weights",
    "sort_keys",
    "indent",
    "sep",
    "no_such",
)


def functions():
    """Return every function that a script can name, except those that are left out."""
    space = Runtime(in_process=True)._engine.space
    found = list(BUILTIN)
    for name in MODULES:
        facade = space.importing.load(name)
        members = (each for kind in type(facade).__mro__ for each in kind.__dict__ if not each.startswith("_"))
        found += [f"{name}.{each}" for each in members if callable(getattr(facade, each))]
    found += [
        f"{kind}.{method}"
        for kind in ("str", "bytes", "list", "tuple", "dict", "set")
        for method in METHODS[kind].split()
    ]
    return sorted(set(found) - LEFT_OUT)


FUNCTIONS = functools.cache(functions)
BINARY = "+ - * / // % & | ^ == != < <= > >= in is and or".split()  # noqa: SIM905
SPECS = [">8", "08.3f", "+d", ",", "x", "#b", "^10", "%", "e", ".2", "s", "_<5", "", "10.4g", "c"]


class Writer:
    """Writes one program from a number. About one argument in five has a type that is wrong for its place."""

    def __init__(self, number):
        self.random = Random(number)

    def value(self, kind=None):
        kind = kind or self.random.choice([*VALUES])
        return self.random.choice(VALUES[kind])

    def expression(self, depth=2):
        pick, choice = self.random.randrange, self.random.choice
        if depth == 0:
            return self.value()
        match pick(13):
            case 0 | 1 | 2:
                return self.method(depth)
            case 3 | 4:
                given = [self.expression(depth - 1) for _ in range(pick(1, 4))]
                if pick(6) == 0:
                    given.append(f"{choice(KEYWORDS)}={self.value()}")
                return f"{choice(FUNCTIONS())}({', '.join(given)})"
            case 5 | 6:
                return f"({self.expression(depth - 1)} {choice(BINARY)} {self.expression(depth - 1)})"
            case 7:
                return f"{self.expression(depth - 1)}[{self.index(depth)}]"
            case 8:
                return f"[{self.expression(depth - 1)} for v in {self.value('list')} if v != {self.value()}]"
            case 9:
                return f"f'{{{self.brackets(depth)}{choice(['', '!r', '!s', '!a'])}:{choice(SPECS)}}}'"
            case 10:
                return f"({choice(['-', '+', '~', 'not '])}{self.expression(depth - 1)})"
            case 11:
                return f"{self.value('str')} % ({self.expression(depth - 1)},)"
            case _:
                return f"{{{self.value()}: {self.expression(depth - 1)}, **{self.value('dict')}}}"

    def brackets(self, depth):
        found = self.expression(depth - 1)
        return "1.5" if set(found) & set("'\\{}!:") else f"({found})"

    def method(self, depth):
        kind = self.random.choice([*METHODS])
        name = self.random.choice(METHODS[kind].split())
        given = [self.argument(kind, depth) for _ in range(self.random.choice((0, 1, 1, 2)))]
        return f"({self.value(kind)}).{name}({', '.join(given)})"

    def argument(self, kind, depth):
        return self.value(kind) if self.random.randrange(5) else self.expression(depth - 1)

    def index(self, depth):
        pick = self.random.randrange
        if pick(2):
            return ":".join(str(self.random.choice(["", -2, 0, 1, 3])) for _ in range(pick(2, 4)))
        return self.expression(depth - 1) if pick(3) == 0 else str(pick(-3, 4))

    def program(self):
        return START + "\n".join(f"show(lambda: {self.expression()})" for _ in range(LINES))


REFUSALS = (
    "in scripts",
    "the table of translate must be a dict",
    "needs a number, not 'Index'|must be an integer|non-int of type|an integer of at most|cannot be interpreted as an integer",
    "'(copy|update)' of 'dict' does not apply",
    "'(GenericAlias|Fraction|Decimal)' object is not iterable",
    "textwrap takes numbers and text",
    "statistics need numbers",
    "expected text",
    "bisect needs a list or a tuple",
    r"takes \d positional arguments? but",
)
"""What a runtime says where CPython has a value: the divergences on the page, and arguments of unusual types."""
ADDRESS = r" at 0x|<built-in|(list|tuple|dict|set|type)\[|^= str .<|^= (UnionType|Union) "


def outcomes(number):
    """Return the source lines of a program, and for each what CPython and what a runtime printed."""
    source = Writer(number).program()
    plain = io.StringIO()
    with contextlib.redirect_stdout(plain):
        exec(compile(source, "generated", "exec"), {"__name__": "__main__"})
    runtime = Runtime(CAPS, in_process=True)
    runtime.run(source)
    lines = [line for line in source.splitlines() if line.startswith("show(")]
    return list(zip(lines, plain.getvalue().split("\n")[:-1], runtime.stdout.split("\n")[:-1], strict=True))


def differences(number):
    """Return what differs in a program: the kind of the difference, and the line with both outcomes."""
    for line, theirs, ours in outcomes(number):
        their_kind, our_kind = theirs.split(" ", 2)[:2], ours.split(" ", 2)[:2]
        if theirs == ours or (their_kind == our_kind and their_kind[0] == "!"):
            continue
        if their_kind[0] == our_kind[0] == "!":
            yield "another class of exception", line
            continue
        known = next((each for each in REFUSALS if ours.startswith("!") and re.search(each, ours)), None)
        if "nan" in theirs and "{" in theirs and sorted(theirs) == sorted(ours):
            known = "order of a set with nan, whose hash is an address"
        if re.search(ADDRESS, theirs) and ours.startswith("="):
            known = "text of an iterator or a function"
        yield known or "unknown", f"{line}\n  {theirs}\n  {ours}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--start", type=int, default=0)
    given = parser.parse_args()
    counted = Counter()
    for number in range(given.start, given.start + given.programs):
        for kind, text in differences(number):
            counted[kind] += 1
            if kind == "unknown":
                print(f"program {number}: {text}", flush=True)
    print(f"{given.programs} programs of {LINES} lines; {counted['unknown']} unknown differences")
    for kind, count in counted.most_common():
        print(f"{count:6} {kind}")
    raise SystemExit(counted["unknown"] > 0)


if __name__ == "__main__":
    main()
