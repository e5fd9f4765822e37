"""Builds what a script can name: guards and built-in names. Whatever is in no table here is absent."""

from __future__ import annotations

import builtins
import operator
from itertools import compress
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary.attributes import FREE, GUARDED, KEYED, Attributes
from stockade.embedded.boundary.bulk import Bulk
from stockade.embedded.boundary.classes import Classes
from stockade.embedded.boundary.comparing import Comparing
from stockade.embedded.boundary.entering import Entering
from stockade.embedded.boundary.hashing import Hashing
from stockade.embedded.boundary.importing import Importing
from stockade.embedded.boundary.iterating import Iterating
from stockade.embedded.boundary.kinds import INTEGERS, Scales
from stockade.embedded.boundary.methods import Methods
from stockade.embedded.boundary.numbers import Numbers
from stockade.embedded.boundary.operators import Operators
from stockade.embedded.boundary.ordering import Ordering
from stockade.embedded.boundary.percent import Percent
from stockade.embedded.boundary.rendering import MODULE, Rendering
from stockade.embedded.boundary.slices import Slices
from stockade.embedded.boundary.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.meter import Meter
    from stockade.embedded.boundary.settings import Settings

EXCEPTIONS = (
    "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BufferError", "EOFError", "Exception",
    "FloatingPointError", "ImportError", "IndexError", "KeyError", "LookupError", "MemoryError", "ModuleNotFoundError",
    "NameError", "NotImplementedError", "OSError", "OverflowError", "PermissionError", "RecursionError",
    "GeneratorExit", "RuntimeError", "StopIteration", "TimeoutError", "TypeError", "UnboundLocalError",
    "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError", "ValueError", "Warning", "ZeroDivisionError",
    "DeprecationWarning", "UserWarning", "IOError", "FileNotFoundError", "ConnectionError",
)  # fmt: skip
PLAIN = (
    "object",
    "property",
    "len",
    "next",
    "ord",
    "chr",
    "super",
    "NotImplemented",
    "Ellipsis",
)
"""Built-in names that stand for CPython's own object: constant work, and nothing reachable from them."""


_MISSING = object()


class _NoInteger:
    """Stands in the place of ``int`` in inline tests once a large integer exists."""


class _Held:
    """Holds a value that woven code reads as an attribute: a pattern takes no call."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Namespace:
    """The global names of one runtime."""

    def __init__(self, meter: Meter, settings: Settings) -> None:
        self.meter, self.settings = meter, settings
        self.names: dict[str, Any] = {"__name__": MODULE}
        scales = Scales(meter)
        self.scales = scales
        self.rendering = rendering = Rendering(scales)
        self.operators = operators = Operators(meter, scales, self._grow)
        comparing = Comparing(operators)
        self.ordering = ordering = Ordering(operators, comparing)
        self.bulk = bulk = Bulk(operators, comparing, ordering)
        self.hashing = hashing = Hashing(bulk)
        self.numbers = numbers = Numbers(operators, rendering.pay_spec)
        self.attributes = attributes = Attributes(self._bound, meter.symbol)
        self.methods: Methods
        self.texts = Texts(operators, rendering, attributes.named)
        self.methods = Methods(self.texts, bulk, hashing, numbers)
        self.guards = operators.table()
        self.iterating = Iterating(bulk, hashing, self.guards)
        self.classes = Classes(attributes, rendering)
        self.comparing = comparing
        self.importing = Importing(self)
        self._fill(comparing, attributes)

    def _fill(self, comparing: Comparing, attributes: Attributes) -> None:
        meter, rendering, iterating = self.meter, self.rendering, self.iterating
        tables = (self.guards, comparing.table(), attributes.table(), self.methods.table(), self.classes.table())
        for table in (*tables, Slices(self.operators, iterating).table()):
            self.names.update(table)
        self.names.update({
            "$type": type, "$int": int, "$float": float, "$str": str, "$dict": dict, "$set": set,
            "$units": meter.units, "$next": next, "$charge": meter.charge, "$caught": meter.caught,
            "$context": Entering(meter.caught).context,
            "$compress": compress, "$key": self.scales.key, "$text": rendering.text, "$format": rendering.formatted,
            "$cat": rendering.cat, "$star": iterating.star, "$double_star": iterating.double_star,
            "$delegated": iterating.delegated, "$set_of": iterating.make_set, "$subject": self._subject,
            "$handling": self._handling, "$pattern": self._pattern, "$source": iterating.metered,
            "$is_small": iterating.is_small, "$flagged": iterating.flagged,
            "$import": self.importing.load, "$mod": self._modulo(in_place=False), "$imod": self._modulo(in_place=True),
        })  # fmt: skip
        self.names["__builtins__"] = self._builtins()

    def _bound(self, value: Any, name: str) -> Any:
        return self.methods.bound(value, name)

    def _grow(self) -> None:
        self.names["$int"] = _NoInteger

    def _subject(self, value: Any) -> Any:
        self.scales.weigh(value)
        return value

    def _handling(self) -> Callable[[Any], Any]:
        """Return the guard of the classes in an ``except`` clause, if the script may go on. They are an expression."""
        self.meter.check()
        return self._subject

    def _pattern(self, value: Any) -> Any:
        """Return a holder of a value in a pattern. A comparison takes at most as many steps as that value weighs."""
        self.scales.weigh(value)
        return _Held(value)

    def _modulo(self, *, in_place: bool) -> Callable[[Any, Any], Any]:
        perform: Callable[[Any, Any], Any] = operator.imod if in_place else operator.mod
        percent = Percent(self.rendering).render

        def guard(left: Any, right: Any) -> Any:
            if type(left) is str:
                return percent(left, right)
            if type(left) is bytes:
                raise TypeError("% of bytes is not available in scripts")
            self.operators.pay_quotient(left, right)
            return self.operators.accounted(perform(left, right))

        return guard

    def _builtins(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: getattr(builtins, name) for name in (*EXCEPTIONS, *PLAIN)}
        found |= {
            "__build_class__": builtins.__build_class__,
            "__name__": MODULE,
            "HostError": self.settings.host_error,
        }
        found |= {kind.__name__: _wrapping_once(kind) for kind in (staticmethod, classmethod)}
        found |= self._functions() | self._types()
        return found

    def _functions(self) -> dict[str, Any]:
        numbers, iterating, ordering, classes = self.numbers, self.iterating, self.ordering, self.classes
        return {
            "abs": numbers.absolute, "round": numbers.rounded, "pow": numbers.raised, "divmod": numbers.divided,
            "bin": numbers.based(bin), "oct": numbers.based(oct), "hex": numbers.based(hex), "sum": iterating.total,
            "any": iterating.any_true, "all": iterating.all_true, "map": iterating.mapped,
            "filter": iterating.filtered, "zip": iterating.zipped, "iter": iterating.iterator,
            "enumerate": iterating.numbered, "reversed": iterating.backwards, "sorted": ordering.ordered,
            "min": ordering.smallest,
            "max": ordering.largest, "isinstance": classes.isinstance, "issubclass": classes.issubclass,
            "callable": classes.callable, "getattr": classes.getattr, "hasattr": classes.hasattr,
            "setattr": classes.setattr, "delattr": classes.delattr, "repr": self.rendering.repr_of,
            "ascii": self._ascii, "format": self._format, "hash": self._hash, "print": self._print,
        }  # fmt: skip

    def _types(self) -> dict[str, Any]:
        numbers, iterating, facade = self.numbers, self.iterating, self.classes.facade
        makers: dict[Any, Callable[..., Any]] = {
            int: numbers.make_int,
            float: numbers.make_float,
            complex: numbers.make_complex,
            str: self._str,
            bytes: self._bytes,
            list: iterating.make_list,
            tuple: iterating.make_tuple,
            dict: iterating.make_dict,
            set: iterating.make_set,
            frozenset: iterating.make_frozenset,
            bool: _truth,
            range: iterating.ranged,
        }
        found = {kind.__name__: facade(kind.__name__, kind, make, self._members(kind)) for kind, make in makers.items()}
        for kind, make in makers.items():
            self.names |= {f"$t_{kind.__name__}": found[kind.__name__], f"$f_{kind.__name__}": make}
        return found | {"type": self.classes.type}

    def _members(self, kind: Any) -> dict[str, Any]:
        members = {name: getattr(kind, name) for name in FREE[kind] if callable(getattr(kind, name, None))}
        members = {name: self.methods.keyed(method) if name in KEYED else method for name, method in members.items()}
        members |= self.methods.of_type(kind)
        for name in ("fromkeys", "maketrans", "from_bytes", "fromhex"):
            members.pop(name, None)
        if kind is dict:
            members["fromkeys"] = _without_receiver(self.hashing.dict_fromkeys)
        if kind is str:
            members["maketrans"] = _without_receiver(self.texts.str_maketrans)
        if kind is int:
            members["from_bytes"] = _without_receiver(self.numbers.int_from_bytes)
        if kind is bytes:
            members["fromhex"] = self._from_hex
        return {name: value for name, value in members.items() if name in GUARDED or name in FREE[kind]}

    def _from_hex(self, text: Any) -> bytes:
        self.operators.sized(len(text), text)
        return bytes.fromhex(text)

    def _str(self, value: Any = "", /, encoding: Any = _MISSING, errors: Any = _MISSING) -> str:
        if encoding is errors is _MISSING:
            return self.rendering.str_of(value)
        if type(value) is not bytes:
            raise TypeError("decoding to str: need bytes")
        named = {"encoding": encoding, "errors": errors}
        given = {name: each for name, each in named.items() if each is not _MISSING}
        return str(self.methods.guards["decode"](value, **given))

    def _bytes(self, value: Any = b"", *args: Any) -> bytes:
        if type(value) is str and args:
            return bytes(self.methods.guards["encode"](value, *args))
        if type(value) is str or args:
            raise TypeError("bytes() takes a text with its encoding, or another value without one")
        if type(value) in INTEGERS:
            self.operators.sized(value, b"")
            return bytes(value)
        return value if type(value) is bytes else bytes(self.bulk.taken(value))

    def _ascii(self, value: Any, /) -> str:
        return self.rendering.formatted(value, "", "a")

    def _format(self, value: Any, spec: Any = "", /) -> str:
        return self.rendering.formatted(value, spec)

    def _hash(self, value: Any, /) -> int:
        return hash(self.scales.key(value))

    def _print(self, *values: Any, sep: Any = " ", end: Any = "\n", **ignored: Any) -> None:
        if ignored.keys() - {"flush"}:
            raise TypeError("print() takes sep, end and flush in scripts")
        between, after = (default if each is None else each for each, default in ((sep, " "), (end, "\n")))
        parts: list[str] = []
        for value in values:
            parts += [self.rendering.str_of(value), between]
        self.settings.write(self.rendering.cat(*parts[:-1], after))


def _without_receiver(perform: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a type as the function that its facade offers."""
    return lambda *args, **kwargs: perform(None, *args, **kwargs)


def _wrapping_once(kind: Any) -> Callable[[Any], Any]:
    """Return a decorator that refuses a method that is wrapped already: C code recurses over such chains."""

    def wrap(function: Any, /) -> Any:
        if isinstance(function, staticmethod | classmethod):
            raise TypeError("a method is wrapped once in scripts")
        return kind(function)

    return wrap


def _truth(value: Any = False, /) -> bool:
    return bool(value)
