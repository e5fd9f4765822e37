"""Walks every object and type that a script can reach, from the names that it can write and from values that it can make."""

from types import BuiltinFunctionType, FunctionType, MethodType

from stockade.embedded import Caps, Runtime
from stockade.embedded.boundary.facades import Fixed
from stockade.embedded.boundary.importing import MODULES

MAKING = """
import datetime, re, hashlib, random, contextlib, itertools, collections, functools, decimal, fractions, enum, dataclasses
def generator():
    yield 1
class Plain:
    def method(self): pass
    prop = property(lambda self: 1)
class Color(enum.Enum):
    RED = 1
class Problem(Exception): pass
@dataclasses.dataclass
class Data:
    x: int = 1
Named = collections.namedtuple('Named', 'a b')
def error(make):
    try:
        make()
    except Exception as e:
        return e
class Trace:
    def __enter__(self): return self
    def __exit__(self, kind, error, trace):
        self.trace = trace
        return True
with Trace() as traced:
    1 / 0
values = [
    1, 1.5, 1j, True, None, '', b'', [], (), {}, set(), frozenset(), range(1), generator(), generator, Plain, Plain(), Plain().method,
    Plain.prop, Color.RED, Color, Problem(), Data(), Data, Named(1, 2), Named, lambda: 1, (x for x in []), {}.keys(), {}.values(), {}.items(), *(view for d in [collections.OrderedDict()] for view in (d.keys(), d.values(), d.items())),
    iter([]), iter(()), iter({}), iter(''), iter(set()), iter(range(1)), iter({}.items()), iter({}.values()), reversed([]), reversed({}), enumerate([]), zip([]),
    map(len, []), filter(len, []), iter(int, 1), itertools.count(), itertools.chain([]), itertools.repeat(1), itertools.cycle([1]),
    itertools.product([]), itertools.combinations([1], 1), itertools.permutations([1]), itertools.accumulate([]), itertools.groupby([1]), next(itertools.groupby([1]))[1],
    itertools.takewhile(len, []), itertools.dropwhile(len, []), itertools.zip_longest([]), itertools.pairwise([]), itertools.tee([])[0], itertools.starmap(len, []),
    itertools.islice([], 1), itertools.compress([], []), itertools.filterfalse(len, []), collections.deque(), collections.Counter(), collections.defaultdict(list), collections.OrderedDict(),
    iter(collections.deque()), datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), datetime.timedelta(1), datetime.timezone.utc, datetime.time(1),
    datetime.date(2020, 1, 1).isocalendar(), decimal.Decimal(1), fractions.Fraction(1), re.compile('a'), re.match('a', 'a'), re.finditer('a', 'a'), next(re.finditer('a', 'a')), hashlib.md5(), contextlib.nullcontext(),
    contextlib.suppress(ValueError), functools.cmp_to_key(lambda a, b: 0)(1), functools.partial(len), dataclasses.field(), dataclasses.fields(Data), dataclasses.fields(Data)[0], enum.auto(),
    error(lambda: 1 / 0), error(lambda: [][1]), error(lambda: {}[1]), error(lambda: int('x')), error(lambda: (1).x), error(lambda: undefined), error(lambda: 'é'.encode('ascii')),
    error(lambda: next(iter([]))), error(lambda: decimal.Decimal('x')), error(lambda: re.compile('(')), ''.join, [].sort, len, print, 'a'.upper, [].append, traced.trace, ..., NotImplemented,
    classmethod(len), staticmethod(len), object(), HostError('x'), collections.Counter().elements(), random.random, type(1), type([]), type(generator),
]
"""


def reached():
    """Return the namespace of a runtime, the objects in it that a script can name, and values that a script made."""
    runtime = Runtime(Caps(fuel=10**7), in_process=True)
    space = runtime._engine.space
    runtime.run(MAKING)
    found = [value for name, value in space.names["__builtins__"].items() if not name.startswith("__")]
    for name in MODULES:
        facade = space.importing.load(name)
        found.append(facade)
        found += [getattr(facade, member) for member in public(type(facade))]
    found += [getattr(value, member) for value in list(found) if isinstance(value, Fixed) for member in public(value)]
    return space, found, list(space.names["values"])


def public(kind):
    """Return the attributes of a type that source can spell."""
    return sorted(
        {name for base in kind.__mro__ for name in base.__dict__ if not (name.startswith("__") and name.endswith("__"))}
    )


def is_function(value):
    return isinstance(value, (FunctionType, BuiltinFunctionType, MethodType))
