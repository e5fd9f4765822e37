"""Programs in the language of scripts. Each prints what it computes, so that CPython and the woven form can be compared."""

PROGRAMS = {
    "numbers": """
x = 7
print(x + 2, x - 2, x * 2, x / 2, x // 2, x % 2, x ** 2, x << 2, x >> 1, x & 3, x | 8, x ^ 1, -x, +x, ~x)
y = 2.5
print(x + y, y * x, y // 2, y % 2, y ** 2, -y, abs(-y), round(2.567, 2), divmod(17, 5), pow(3, 4), pow(3, 4, 5))
print(True + 1, True * 5, 10 ** 20 * 10 ** 20, (1 << 100) % 97, int('ff', 16), int(3.9), float('1.5'), complex(1, 2) * 2)
print(2 ** 70 + 1, 2 ** 70 - 2 ** 70, (2 ** 70) * (2 ** 70), 2 ** 62 + 2 ** 62, -2 ** 62 - 2 ** 62, bin(10), oct(8), hex(255))
t = 1
for i in range(60):
    t = t * 3 + i
print(t, t // 7, t % 1000, t == t + 0, t > 10 ** 20)
""",
    "large_integers": """
a = 3 ** 3000
b = a * a
print(a % 1000007, b % 1000007, (a + b) % 1000007, (b - a) % 1000007, b // a == a, a < b, -a < a)
i = 5
i += 1
i *= 3
print(i, i + a > a, sum([a, 1, 2]) % 97, max(a, b) == b, sorted([b, a, 1])[0], hash(a) == hash(3 ** 3000))
""",
    "text": """
s = 'Hello'
s += ' World'
print(s.upper(), s.lower(), s.title(), s.swapcase(), s.split(), s.replace('l', 'L'), s.find('o'), s.count('l'), s[1:4], s[::-1], s[-1])
print(s.center(20, '*'), s.ljust(15) + '|', s.rjust(15), '42'.zfill(5), 'a\\tb'.expandtabs(4), ','.join(['a', 'b']), s.startswith('He'))
print(s.partition(' '), 'a,b,,c'.split(','), '  x '.strip(), 'xxhixx'.strip('x'), 'abc'.isalpha(), '12'.isdigit(), s.encode(), b'abc'.decode())
print('%s is %d years, %5.2f, %-5s|%05d|%x|%r|%%' % ('Al', 3, 2.5, 'x', 42, 255, 'q'), '%(a)s-%(b)d' % {'a': 1, 'b': 2})
print('{} {1} {name!r:>5}'.replace('1', '').format(1, 2, name='z'), '{0}{1}{0}'.format('a', 'b'), '{a[0]}{b[k]}'.format(a=[1], b={'k': 2}))
print(f'{s!r:>15}|{3.14159:.2f}|{42:05d}|{1000000:,}|{0.5:%}|{"nested" + "x"}|{[1, 2]}|{{}}|{s:*^20}|{255:#x}|{"é"!a}')
print('a' < 'b', 'abc' == 'abc', 'b' in 'abc', 'z' not in 'abc', 'abc' * 2, 'é'.encode('utf-8'), ord('a'), chr(98), repr('a\\nb'))
print('x'.join('abc'), 'abc'.translate(str.maketrans('ab', 'xy')), 'a-b_c'.translate({45: ' ', 95: None}), 'ß'.upper(), list(map(str.upper, 'ab')))
f = 'abc'.replace
print(f('a', 'z'), sorted(['b', 'A', 'c'], key=str.lower), ''.join(reversed('abc')), 'one\\ntwo'.splitlines(), 'a=1;b=2'.rsplit(';', 1))
""",
    "containers": """
x = [3, 1, 2]
x.append(4)
x.extend(range(2))
x.insert(0, 9)
x.remove(1)
print(x, x.pop(), x.pop(0), x.index(2), x.count(3), len(x), x[1:], x[::2], x[-1], x == [3, 2, 4, 0], [1] + [2], [0] * 3, [1, 2] < [1, 3])
x.sort()
x.reverse()
x[1:2] = ['a', 'b']
del x[0]
del x[1:]
print(x, sorted([(2, 'b'), (1, 'a'), (1, 'A')]), sorted('hello', reverse=True), min([3, 1]), max(3, 7, 5), max('ab', 'abc', key=len), min([], default=0))
d = {'a': 1, 'b': 2}
d['c'] = d.get('z', 0) + 3
d.update({'e': 5}, f=6)
print(d, list(d), d.items(), d.keys(), sorted(d.values()), d.pop('a'), d.setdefault('q', []), 'b' in d, {**d, 'g': 7}, d | {'h': 8}, {k: v for k, v in d.items()})
s = {1, 2, 3}
s.add(4)
s.discard(1)
print(sorted(s), sorted(s | {9}), sorted(s & {2, 3}), sorted(s - {2}), sorted(s ^ {2, 7}), s >= {2}, s.issubset([2, 3, 4]), sorted(s.union([8], (9,))), frozenset([1]))
t = (1, [2], {'x': (3,)})
print(t, t[1], t + (4,), t * 2, (1,), (), t == (1, [2], {'x': (3,)}), 2 in (1, 2), [1] in [[1]], hash((1, 2)) == hash((1, 2)))
a, *b, c = range(5)
(p, q), r = (1, 2), 3
print(a, b, c, p, q, r, [*b, *'xy'], {*b}, dict(zip('ab', [1, 2])), list(zip([1, 2], 'ab')), list(enumerate('ab', 1)), dict([('k', 1)], z=2))
n = [[0] * 3 for _ in range(2)]
n[1][2] += 5
n[0][0] -= 1
print(n, any([0, 1]), all([1, 0]), sum([1, 2.5]), sum([[1], [2]], []), list(map(lambda v: v * 2, [1, 2])), list(filter(None, [0, 1, 2])), list(reversed([1, 2])))
w = [1, 2, 3]
w += (4,)
w *= 2
print(w, w[2:4], tuple(w), set([1, 1]), list('ab'), bytes([65, 66]), b'ab' + b'c', b'a,b'.split(b','), range(3), range(0, 10, 3)[1:], 4 in range(5))
self_list = [1]
self_list.append(self_list)
print(self_list, {'k': self_list})
""",
    "control": """
def classify(n):
    if n < 0:
        return 'neg'
    elif n == 0:
        return 'zero'
    else:
        return 'pos'
print([classify(n) for n in (-1, 0, 1)])
i = 0
while True:
    i += 1
    if i == 3:
        continue
    if i > 6:
        break
else:
    print('never')
print(i)
while i > 5:
    i -= 1
else:
    print('else of while', i)
for i in range(3):
    if i == 5:
        break
else:
    print('else of for')
for i in range(3):
    while True:
        if i == 1:
            break
        i += 10
        if i > 5:
            break
    print(i, end=' ')
print()
print([(x, y) for x in range(3) for y in range(x) if x != y], {x: x * x for x in range(3)}, {x % 2 for x in range(5)}, list(x + 1 for x in [1, 2]))
print(1 if i else 2, not i, i and 5, 0 or 'd', 1 < 2 < 3, 1 < 3 < 2, (lambda a, b=2, *c, d=4, **e: (a, b, c, d, e))(1, 3, 5, d=6, z=7))
if (n := 10) > 5 and (m := n * 2):
    print(n, m)
print([y for x in range(4) if (y := x * x) > 1], [a < b < c for a, b, c in [(1, 2, 3), (3, 2, 1)]])
del i
try:
    i
except NameError as e:
    print('NameError', e)
""",
    "functions": """
def outer(a, b=2, *args, c, d=4, **kw):
    total = a + b
    def inner(x):
        nonlocal total
        total += x
        return total
    return inner(1), inner(2), args, c, d, sorted(kw.items())
print(outer(1, c=3), outer(1, 2, 3, 4, c=5, e=6), outer(*[1, 2], **{'c': 3}))
counter = 0
def bump():
    global counter
    counter += 1
    return counter
bump()
bump()
print(counter)
def deco(f):
    def g(*a, **k):
        return ('deco', f(*a, **k))
    return g
@deco
@deco
def h(x: int, y: 'str' = 'q') -> tuple:
    'doc'
    return x, y
print(h(1))
def fact(n):
    return 1 if n <= 1 else n * fact(n - 1)
print(fact(20), fact(30), (lambda n: n + 1)(2))
def defaults(x=[]):
    x.append(1)
    return len(x)
print(defaults(), defaults())
def swap(a, b):
    return b, a
x, y = swap(1, 2)
print(x, y)
x = y = [1]
x += [2]
print(x, y, x is y)
def order():
    log = []
    def f(n):
        log.append(n)
        return n
    f(1) + f(2) * f(3) - f(4)
    f(1) < f(2) < f(3)
    {f(5): f(6), f(7): f(8)}
    [f(9), f(10)][f(0)]
    return log
print(order())
""",
    "rebinding": """
x = 1
def f():
    global x
    x = 100
    return 5
print(x + f(), x)
x = 1
x += f()
print(x)
x = 1
print(x < f() < 10, x)
def g():
    s = 'a'
    def h():
        nonlocal s
        s = 'changed'
        return 'b'
    s += h()
    return s
print(g())
def k():
    s = 'a'
    t = s
    s += 'b'
    s += str(1) + t
    return s, t
print(k())
def m():
    x = [1, 2]
    i = 0
    def n():
        nonlocal i
        i = 1
        return 10
    x[i] += n()
    return x, i
print(m())
""",
    "classes": """
class Animal:
    kind = 'animal'
    count = 0
    def __init__(self, name):
        self.name = name
        Animal.count += 1
    def speak(self):
        return f'{self.name} makes a sound'
    @property
    def loud(self):
        return self.name.upper()
    @loud.setter
    def loud(self, v):
        self.name = v.lower()
    @staticmethod
    def make(n):
        return Animal(n)
    @classmethod
    def create(cls, n):
        return cls(n)
    def __repr__(self):
        return f'{self.__class__.__name__}({self.name!r})'
    def __eq__(self, o):
        return isinstance(o, Animal) and self.name == o.name
    def __hash__(self):
        return hash(self.name)
    def __lt__(self, o):
        return self.name < o.name
class Dog(Animal):
    def __init__(self, name, breed):
        super().__init__(name)
        self.breed = breed
    def speak(self):
        return super().speak() + '!'
    def __len__(self):
        return 3
    def __getitem__(self, i):
        return i * 2
    def __contains__(self, v):
        return v == 1
    def __call__(self, x):
        return x + 1
    def __add__(self, o):
        return 'added'
    def __radd__(self, o):
        return 'radded'
    def __bool__(self):
        return False
    def __iter__(self):
        return iter([1, 2])
d = Dog('rex', 'lab')
print(d.speak(), d.loud, d, repr(d), str(d), [d], len(d), d[4], 1 in d, d(1), d + 1, 1 + d, bool(d), list(d), d.kind, Animal.count)
d.loud = 'MAX'
print(d.name, Animal.make('a') == Animal.create('a'), sorted([Animal('b'), Animal('a')]), {Animal('a'): 1}[Animal('a')], isinstance(d, Animal), issubclass(Dog, Animal))
print(type(d) is Dog, type(d).__name__, hasattr(d, 'x'), getattr(d, 'x', 5), type(1) is int, type('') is str, isinstance(1, (str, int)), type([]) == list)
setattr(d, 'x', 9)
d.x += 1
d.items = [1]
d.items[0] += 4
print(d.x, d.items)
delattr(d, 'x')
class Stack:
    def __init__(self):
        self._items = []
        self.__private = 1
    def push(self, v):
        self._items.append(v)
        return self
    def pop(self):
        return self._items.pop()
    def get_private(self):
        return self.__private
    def replace(self, a, b):
        return ('own', a, b)
    def update(self, *a):
        return a
s = Stack().push(1).push(2)
print(s.pop(), s.get_private(), s.replace(1, 2), s.update(3))
class Meta:
    registry = {}
    def __init_subclass__(cls, **kw):
        Meta.registry[cls.__name__] = cls
class Sub(Meta):
    pass
print(list(Meta.registry))
class V:
    __slots__ = ('x', 'y')
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __iadd__(self, o):
        self.x += o.x
        return self
v = V(1, 2)
v += V(3, 4)
print(v.x, v.y)
class Single:
    inst = None
    def __new__(cls):
        if cls.inst is None:
            cls.inst = super().__new__(cls)
        return cls.inst
print(Single() is Single())
class Desc:
    def __set_name__(self, owner, name):
        self.n = '_' + name
    def __get__(self, obj, kind=None):
        return getattr(obj, self.n, 'unset')
    def __set__(self, obj, v):
        setattr(obj, self.n, v)
class UsesDesc:
    f = Desc()
u = UsesDesc()
print(u.f)
u.f = 4
print(u.f)
class Dyn:
    def __getattr__(self, n):
        return 'dyn ' + n
print(Dyn().foo)
class A:
    def who(self):
        return 'A'
class B(A):
    def who(self):
        return 'B' + super().who()
class C(A):
    def who(self):
        return 'C' + super().who()
class D(B, C):
    def who(self):
        return 'D' + super(D, self).who()
print(D().who(), Animal.speak(d), A.who(B()))
""",
    "errors": """
class Custom(Exception):
    def __init__(self, code, msg='m'):
        super().__init__(msg)
        self.code = code
def f(n):
    try:
        if n == 0:
            raise Custom(7)
        if n == 1:
            return 1 / 0
        if n == 2:
            return [][1]
        if n == 3:
            return {}['k']
        if n == 4:
            return int('x')
        if n == 5:
            return 'ok'
        return None.x
    except Custom as e:
        return ('custom', e.code, str(e), e.args)
    except (ZeroDivisionError, IndexError) as e:
        return (type(e).__name__, str(e))
    except LookupError as e:
        return repr(e)
    except ValueError as e:
        return 'value', str(e)
    else:
        return 'unreached'
    finally:
        print('finally', n)
for i in range(6):
    print(f(i))
try:
    f(6)
except AttributeError as e:
    print(e)
try:
    try:
        1 / 0
    except ZeroDivisionError as e:
        raise ValueError('outer') from e
except ValueError as e:
    print(repr(e))
try:
    raise KeyError('k')
except Exception as e:
    print(e, repr(e))
try:
    assert 1 == 2, 'message'
except AssertionError as e:
    print(e)
def g():
    try:
        return 'try'
    finally:
        print('cleanup')
print(g())
def loops():
    for i in range(3):
        try:
            if i == 1:
                continue
            if i == 2:
                break
        finally:
            print('f', i)
loops()
try:
    'a' + 1
except TypeError as e:
    print(e)
try:
    1 + 'a'
except TypeError as e:
    print(e)
try:
    undefined
except NameError as e:
    print(e)
""",
    "generators": """
def countdown(n):
    while n > 0:
        got = yield n
        if got:
            n = got
        else:
            n -= 1
g = countdown(3)
print(next(g), next(g), g.send(10), list(g))
def chain(*its):
    for it in its:
        yield from it
print(list(chain([1], (2,), 'a', countdown(2))), sum(countdown(4)), max(countdown(3)), 2 in countdown(3), next(iter([]), 'd'))
def fib():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b
for x in fib():
    if x > 50:
        break
    print(x, end=',')
print()
def with_return():
    yield 1
    return 5
def outer():
    r = yield from with_return()
    yield r
print(list(outer()))
def closing():
    try:
        yield 1
        yield 2
    except GeneratorExitLike:
        pass
    finally:
        print('closed')
class GeneratorExitLike(Exception):
    pass
c = closing()
next(c)
c.close()
gen = (x * 2 for x in range(3))
print(next(gen), list(gen), [list(row) for row in zip(*[[1, 2], [3, 4]])])
class It:
    def __init__(self):
        self.n = 0
    def __iter__(self):
        return self
    def __next__(self):
        self.n += 1
        if self.n > 3:
            raise StopIteration
        return self.n
print(list(It()), [x for x in It()], sum(It()), tuple(It()), sorted(It(), reverse=True), dict(zip(It(), 'abc')))
g1 = (a + b for a, b in [(1, 2), (3, 4)])
g2 = (a - next(g1) for a in [10, 20])
print(list(g2))
""",
    "matching": """
class P:
    __match_args__ = ('x', 'y')
    def __init__(self, x, y):
        self.x, self.y = x, y
class Color:
    RED = 1
def m(v):
    match v:
        case 0:
            return 'zero'
        case Color.RED:
            return 'red'
        case int(n) if n > 100:
            return f'big {n}'
        case int() | float():
            return 'number'
        case 'a' | 'b' as s:
            return f'letter {s}'
        case str():
            return 'text'
        case []:
            return 'empty'
        case [x]:
            return f'one {x}'
        case [x, y, *rest]:
            return f'many {x} {y} {rest}'
        case {'type': 'a', **rest}:
            return f'map {rest}'
        case P(x=0):
            return 'origin'
        case P(x, y):
            return f'point {x} {y}'
        case None:
            return 'none'
        case True:
            return 'true'
        case _:
            return 'other'
for v in (0, 1, 500, 5, 2.5, 'a', 'zz', [], [1], [1, 2, 3], {'type': 'a', 'k': 1}, P(0, 1), P(2, 3), None, {1: 2}):
    print(m(v))
""",
    "with": """
class C:
    def __init__(self, n, swallow=False):
        self.n, self.swallow = n, swallow
    def __enter__(self):
        print('enter', self.n)
        return self.n
    def __exit__(self, kind, error, trace):
        print('exit', self.n, kind.__name__ if kind else None)
        return self.swallow
with C(1) as a, C(2) as b:
    print(a, b)
with C(3, True):
    1 / 0
try:
    with C(4):
        raise KeyError('x')
except KeyError:
    print('raised')
from contextlib import contextmanager, suppress, nullcontext
@contextmanager
def cm(v):
    print('before')
    try:
        yield v * 2
    except ValueError:
        print('handled')
    finally:
        print('after')
with cm(4) as x:
    print(x)
with cm(5):
    raise ValueError
with suppress(ZeroDivisionError):
    1 / 0
with nullcontext(3) as n:
    print(n)
""",
    "records": """
from dataclasses import dataclass, field, asdict, astuple, replace, fields
@dataclass
class P:
    x: int
    y: int = 2
    tags: list = field(default_factory=list)
    def total(self):
        return self.x + self.y
@dataclass(frozen=True, order=True)
class Q:
    a: int
    b: str = 'z'
@dataclass
class R(P):
    z: int = 9
    def __post_init__(self):
        self.w = self.z + 1
p = P(1)
p.tags.append('t')
print(p, p == P(1, 2, ['t']), p.total(), asdict(p), astuple(p), replace(p, x=5), [f.name for f in fields(p)], R(1), R(1).w, R(1, z=3))
print(Q(1) < Q(2), sorted([Q(2), Q(1, 'a')]), hash(Q(1)) == hash(Q(1)), {Q(1): 'v'}[Q(1)], Q(1) != Q(1))
try:
    Q(1).a = 2
except AttributeError as e:
    print(e)
match p:
    case P(x, y):
        print(x, y)
from collections import namedtuple
N = namedtuple('N', 'a b')
n = N(1, b=2)
print(n, n.a, n._replace(a=5), n._asdict(), n == (1, 2), N._fields, tuple(n), N._make([3, 4]))
from typing import NamedTuple, Optional, List
class T(NamedTuple):
    x: int
    y: Optional[List[int]] = None
    def s(self):
        return self.x
print(T(1), T(1).s(), T(2, [3]))
from enum import Enum, auto
class Color(Enum):
    RED = 1
    GREEN = 'g'
class Auto(Enum):
    A = auto()
    B = auto()
print(Color.RED, Color.RED.value, Color.GREEN.name, Color(1), Color['RED'], list(Auto), Color.RED is Color(1), Color.RED == 1, {Color.RED: 1}, f'{Color.RED}')
""",
    "modules": """
import math, json, itertools, functools, collections, statistics, string, textwrap, random, base64, hashlib, operator, heapq, bisect, copy, re
from decimal import Decimal
from fractions import Fraction
import datetime as dt
print(math.sqrt(16), math.floor(2.7), math.ceil(2.1), math.gcd(12, 18), math.factorial(10), math.comb(5, 2), math.pi, math.isqrt(17), math.prod([1, 2, 3]), math.log(8, 2), math.hypot(3, 4))
print(json.dumps({'a': [1, 2.5, None, True], 'b': {'c': 'é'}}, indent=1, sort_keys=True), json.loads('{"x": [1, {"y": null}]}'), json.dumps((1, 2)))
print(list(itertools.chain([1], [2])), list(itertools.islice(itertools.count(5), 3)), list(itertools.permutations('ab')), list(itertools.combinations('abc', 2)), list(itertools.product([1, 2], repeat=2)))
print(list(itertools.accumulate([1, 2, 3])), [(k, list(g)) for k, g in itertools.groupby('aab')], list(itertools.takewhile(lambda x: x < 3, [1, 2, 3, 1])), list(itertools.zip_longest('ab', 'c')), list(itertools.starmap(pow, [(2, 3)])))
print(list(itertools.dropwhile(lambda x: x < 2, [1, 2, 1])), list(itertools.repeat(1, 2)), list(itertools.pairwise('abc')), [list(t) for t in itertools.tee([1, 2])], list(itertools.compress('abc', [1, 0, 1])))
print(functools.reduce(lambda a, b: a * b, [1, 2, 3], 10), functools.partial(pow, 2)(3), sorted([3, 1], key=functools.cmp_to_key(lambda a, b: b - a)))
@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(60))
c = collections.Counter('hello')
c.update('lo')
dd = collections.defaultdict(list)
dd['a'].append(1)
q = collections.deque([1, 2], maxlen=3)
q.appendleft(0)
q.append(3)
q.rotate(1)
print(c.most_common(2), c['l'], c['zz'], sorted(c.elements()), dd, dict(dd), q, list(q), dict(collections.OrderedDict([('a', 1)])), c + c, c - collections.Counter('l'))
print(statistics.mean([1, 2, 3, 4]), statistics.median([3, 1, 2]), statistics.stdev([1, 2, 3]), statistics.mode([1, 1, 2]), string.ascii_lowercase, string.digits, string.capwords('a b'))
print(textwrap.wrap('the quick brown fox', 10), textwrap.dedent('  a\\n  b'), base64.b64encode(b'hi'), base64.b64decode('aGk='), hashlib.sha256(b'x').hexdigest(), hashlib.md5(b'a').hexdigest())
print(operator.itemgetter(1)([1, 2]), operator.attrgetter('real')(3), operator.add(1, 2), operator.mul(3, 4), operator.methodcaller('upper')('a'))
h = [3, 1, 2]
heapq.heapify(h)
heapq.heappush(h, 0)
print(heapq.heappop(h), heapq.nlargest(2, h), heapq.nsmallest(1, h), bisect.bisect([1, 2, 3], 2), bisect.bisect_left([1, 2, 3], 2))
a = [[1], {'k': [2]}]
b = copy.deepcopy(a)
b[0].append(9)
print(a, b, copy.copy(a)[0] is a[0])
print(Decimal('1.1') + Decimal('2.2'), Decimal(1) / 3, Fraction(1, 3) + Fraction(1, 6), Fraction('0.5'), Fraction(3, 4).numerator, round(Decimal('2.675'), 2), Decimal('1.50').quantize(Decimal('0.1')))
d = dt.date(2024, 2, 28) + dt.timedelta(days=2)
print(d, d.weekday(), d.isoformat(), dt.datetime(2024, 1, 2, 3, 4, 5).strftime('%Y-%m-%d %H:%M'), dt.datetime.strptime('2024-01-02', '%Y-%m-%d'), (dt.date(2024, 3, 1) - dt.date(2024, 2, 1)).days, dt.date.fromisoformat('2024-05-06'))
print(re.match(r'(\\w+)@(\\w+)', 'me@host').groups(), re.findall(r'\\d+', 'a1b22'), re.sub(r'\\s+', ' ', 'a   b'), re.split(r',\\s*', 'a, b,c'), re.search('b', 'abc').start(), re.sub('(a)(b)', r'\\2\\1', 'ab'), bool(re.fullmatch('[a-z]+', 'abc')))
p = re.compile(r'(?P<y>\\d{4})-(?P<m>\\d\\d)')
m = p.match('2024-05')
print(m.group('y'), m.groupdict(), m.span(), p.sub(lambda k: k.group('m'), '2024-05 x'), [x.group() for x in p.finditer('2024-05 2023-01')])
""",
    "mended": """
import bisect, collections, copy, functools, heapq, itertools, json, re, statistics
from fractions import Fraction
class Both:
    def __add__(self, o): return 'add'
    def __iadd__(self, o): return 'iadd'
    def __sub__(self, o): return 'sub'
    def __isub__(self, o): return 'isub'
    def __mul__(self, o): return 'mul'
    def __imul__(self, o): return 'imul'
    def __truediv__(self, o): return 'truediv'
    def __itruediv__(self, o): return 'itruediv'
    def __floordiv__(self, o): return 'floordiv'
    def __ifloordiv__(self, o): return 'ifloordiv'
    def __mod__(self, o): return 'mod'
    def __imod__(self, o): return 'imod'
    def __pow__(self, o): return 'pow'
    def __ipow__(self, o): return 'ipow'
    def __matmul__(self, o): return 'matmul'
    def __imatmul__(self, o): return 'imatmul'
    def __lshift__(self, o): return 'lshift'
    def __ilshift__(self, o): return 'ilshift'
    def __rshift__(self, o): return 'rshift'
    def __irshift__(self, o): return 'irshift'
    def __and__(self, o): return 'and'
    def __iand__(self, o): return 'iand'
    def __or__(self, o): return 'or'
    def __ior__(self, o): return 'ior'
    def __xor__(self, o): return 'xor'
    def __ixor__(self, o): return 'ixor'
def augmented(right):
    found = []
    x = Both(); x += right; found.append(x)
    x = Both(); x -= right; found.append(x)
    x = Both(); x *= right; found.append(x)
    x = Both(); x /= right; found.append(x)
    x = Both(); x //= right; found.append(x)
    x = Both(); x %= right; found.append(x)
    x = Both(); x **= right; found.append(x)
    x = Both(); x @= right; found.append(x)
    x = Both(); x <<= right; found.append(x)
    x = Both(); x >>= right; found.append(x)
    x = Both(); x &= right; found.append(x)
    x = Both(); x |= right; found.append(x)
    x = Both(); x ^= right; found.append(x)
    b = Both()
    return found + [b + right, b - right, b * right, b / right, b // right, b % right, b ** right, b @ right, b << right, b & right]
print(augmented(2), augmented(1.5), augmented('a'), augmented(Both()))
x = Both(); x += 1.5; y = Both(); y -= 2.5; z = Both(); z *= 0.5; w = Both(); w /= 0.5; v = Both(); v **= 0.5; u = Both(); u %= 3
print(x, y, z, w, v, u)
class Holder: pass
h = Holder(); h.v = Both(); h.v += 1.5; d = {1: Both()}; d[1] %= 2
print(h.v, d)
calls = []
@functools.lru_cache(maxsize=2)
def one(*args, **kwargs):
    calls.append((args, sorted(kwargs.items())))
    return len(calls)
print(one(1), one(1.0), one(True), one(1), one('1'), one(1, x=2), one((1,), (('x', 2),)), one(x=2), one(('x', 2)), calls)
@functools.lru_cache(maxsize=None, typed=True)
def typed(a, b=0):
    calls.append(a)
    return len(calls)
print(typed(1), typed(1.0), typed(1), typed(True), typed(1, b=1), typed(1, b=1.0))
@functools.cache
def pair(a, b): return (a, b)
print(pair(1, 2), pair(1.0, 2), pair(True, 2))
class Item:
    def __init__(self, n): self.n = n
i = Item(1)
s = {i}
t = copy.deepcopy(s)
f = copy.deepcopy(frozenset([i]))
k = copy.deepcopy({i: 1})
print(i in t, [e.n for e in t], i in f, i in k, copy.deepcopy((1, 'a', (2,))), copy.deepcopy(collections.OrderedDict(a=[1])), copy.deepcopy(collections.deque([[1]], 3)), copy.deepcopy(collections.defaultdict(list, {1: [2]})), copy.deepcopy(collections.Counter('aab')), copy.deepcopy(len) is len, copy.deepcopy(Item) is Item)
same = (1, (2, 3))
print(copy.deepcopy(same) is same)
print(list(heapq.merge([3, 1], [2], reverse=True)), list(heapq.merge([1, 4], [2, 3], [0])), list(heapq.merge(['bb'], ['a', 'ccc'], key=len)), next(heapq.merge(itertools.count(1), itertools.count(5))))
q = []
for n in [5, 2, 8, 1, 9, 3, 7, 3]: heapq.heappush(q, (n, str(n)))
print(q, heapq.heapreplace(q, (4, 'x')), heapq.heappushpop(q, (0, 'y')), [heapq.heappop(q) for _ in range(len(q))])
q = [9, 4, 7, 1, 0, 3]
heapq.heapify(q)
print(q)
words = ['a', 'bb', 'bb', 'ccc']
print([bisect.bisect_left(words, 2, key=len), bisect.bisect_right(words, 2, key=len), bisect.bisect([1, 2, 2, 3], 2, 1, 3)])
bisect.insort(words, 'dd', key=len); bisect.insort_left(words, 'ee', key=len)
print(words)
class P:
    __match_args__ = ('x', 'y')
    def __init__(self, x, y): self.x, self.y = x, y
class K: A = 1; B = 'b'; C = [1, 2]
def which(v):
    match v:
        case P(K.A, y=K.B): return 'both'
        case P(x=K.C): return 'list'
        case [K.A, *rest]: return rest
        case {'k': K.B}: return 'mapping'
        case K.A | K.B: return 'or'
    return None
print([which(v) for v in [P(1, 'b'), P([1, 2], 0), [1, 5, 6], {'k': 'b'}, 'b', 1, 2, P(2, 3)]])
m = re.match(r'(?P<a>x+)(y)?(z)', 'xxz')
print(m.expand(r'[\\1|\\2|\\g<3>|\\g<a>]\\n'), m.groups('-'), m.groupdict(), m[0], m['a'], m.group(1, 3), m.lastindex, m.lastgroup, m.pos, m.endpos, m.start(2), m.end('a'), m.span(3))
print(re.sub('(a)|(b)', r'<\\1\\2>', 'abc'), re.subn('a', r'\\g<0>\\g<0>', 'aba'), re.sub('a', r'\\\\', 'a'), re.sub('b', lambda k: k.expand(r'\\g<0>!'), 'abc'))
print(list(iter(lambda it=iter([1, 2, 3, 4]): next(it), 3)), [n for n in zip(range(3), itertools.count(1.5, 0.5))], list(enumerate('ab', 3)), next(itertools.count(Fraction(1, 2))))
print(2 ** Fraction(3), Fraction(1, 2) ** Fraction(2), Fraction(2) ** -2, 2 ** Fraction(-2), pow(2, Fraction(3)), statistics.variance([1, 2, 4]), divmod(Fraction(7, 2), 2), Fraction('1.5e2'))
o = collections.OrderedDict(a=1, b=2)
print('a' in o.keys(), 1 in o.values(), ('a', 1) in o.items(), o.keys() & ['a', 'z'], {1: 2}.keys() | [3], o.keys() == {'a', 'b'}, collections.Counter(a=2).total(), collections.Counter(a=1.5) + collections.Counter(a=1))
""",
}
