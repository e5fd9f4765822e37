"""Built-in functions over iterables. What one of them consumes is paid for element by element, at the speed of C."""

from __future__ import annotations

from itertools import compress, islice, repeat, starmap, takewhile
from operator import index
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.kinds import CONTAINERS, FLAT, INLINE_BITS, INTEGERS
from stockade.embedded.boundary.making import Making
from stockade.embedded.boundary.nesting import NESTABLE, Nesting

if TYPE_CHECKING:
    from stockade.embedded.boundary.bulk import Bulk
    from stockade.embedded.boundary.hashing import Hashing

_NUMBERS = (FLAT | INTEGERS) - {type(None)}
_MISSING = object()
_MANY = 8
_LARGE = 1 << prices.SMALL_BITS
_SMALL = 1 << INLINE_BITS
_TOO_LARGE = f"numbers of more than {prices.SMALL_BITS:,} bits cannot be counted in scripts"


class Iterating(Making):
    """The guarded functions over iterables of one runtime."""

    def __init__(self, bulk: Bulk, hashing: Hashing, operators: dict[str, Any]) -> None:
        super().__init__(bulk, hashing)
        self._add, self._equal = operators["$add"], bulk.comparing.equal
        self.nesting = Nesting(bulk.meter)

    def metered(self, values: Any) -> Any:
        """Return an iterator that pays one unit for each element."""
        if type(values) in NESTABLE:
            self.nesting.check(values)
        return compress(values, self.meter.units)

    @staticmethod
    def is_small(values: Any) -> bool:
        """Return whether ``values`` is a range of integers that woven code handles without a guard."""
        return type(values) is range and -_SMALL < values.start < _SMALL and -_SMALL < values.stop < _SMALL

    def flagged(self, values: Any) -> tuple[tuple[Any, bool]]:
        """Return the source of one turn: ``values``, and whether it is a range of small integers."""
        return ((values, self.is_small(values)),)

    def star(self, values: Any) -> list[Any]:
        """Return what ``*values`` stands for in a call, a display or an assignment."""
        return self.bulk.taken(values)

    def double_star(self, values: Any) -> dict[Any, Any]:
        """Return what ``**values`` stands for in a call or a display."""
        if not isinstance(values, dict):
            raise TypeError(f"argument after ** must be a dict in scripts, not {type(values).__name__}")
        self.meter.charge(1 + len(values) // prices.NODES)
        return values

    def delegated(self, values: Any) -> Any:
        """Return what ``yield from`` delegates to."""
        return values if _is_generator(values) else self.metered(values)

    def total(self, values: Any, /, start: Any = 0) -> Any:
        """Perform ``sum``: at the speed of C for numbers, otherwise by the guard of ``+``."""
        if type(start) not in _NUMBERS:
            if type(start) in (str, bytes):
                raise TypeError(f"sum() can't sum {type(start).__name__} [use ''.join(seq) instead]")
            return self._fold(values, start)
        if type(values) is range:
            self.meter.charge(len(values))
            return sum(values, start)
        if type(values) in CONTAINERS:
            self.meter.charge(len(values))
            return self._total(values, start)
        source = self.metered(values)
        while batch := list(islice(source, 4096)):
            if set(map(type, batch)) <= INTEGERS and type(start) in INTEGERS:
                start = self._total(batch, start)
                continue
            return self._total([*batch, *source], start)
        return start

    def _total(self, values: Any, start: Any) -> Any:
        if not set(map(type, values)) <= _NUMBERS:
            return self._fold(values, start)
        if self.bulk.operators.has_large:
            return self._fold(values, start)
        return sum(values, start)

    def _fold(self, values: Any, start: Any) -> Any:
        add = self._add
        for each in self.metered(values):
            start = add(start, each)
        return start

    def any_true(self, values: Any, /) -> bool:
        """Perform ``any``."""
        return any(self.metered(values))

    def all_true(self, values: Any, /) -> bool:
        """Perform ``all``."""
        return all(self.metered(values))

    def mapped(self, function: Any, /, *values: Any) -> Any:
        """Perform ``map``."""
        self.nesting.check(*values)
        return map(function, *self._wide(values))

    def filtered(self, function: Any, values: Any, /) -> Any:
        """Perform ``filter``, which can skip any number of elements at one step."""
        return filter(function, self.metered(values))

    def zipped(self, *values: Any, strict: Any = False) -> Any:
        """Perform ``zip``."""
        self.nesting.check(*values)
        return zip(*self._wide(values), strict=bool(strict))

    def _wide(self, values: Any) -> Any:
        return values if len(values) < _MANY else [compress(each, self.meter.units) for each in values]

    def iterator(self, source: Any, sentinel: Any = _MISSING, /) -> Any:
        """Perform ``iter``."""
        if sentinel is _MISSING:
            return iter(source)
        if not callable(source):
            raise TypeError("iter(v, w): v must be callable")
        calls = starmap(source, compress(repeat(()), self.meter.units))
        return takewhile(lambda value: not self._equal(value, sentinel), calls)

    def numbered(self, values: Any, start: Any = 0) -> Any:
        """Perform ``enumerate``."""
        self.nesting.check(values)
        if not -_LARGE < index(start) < _LARGE:
            raise OverflowError(_TOO_LARGE)
        return enumerate(values, start)

    @staticmethod
    def ranged(*bounds: Any) -> range:
        """Perform ``range``: each step makes a number as large as the bounds."""
        made = range(*bounds)
        if not (-_LARGE < made.start < _LARGE and -_LARGE < made.stop < _LARGE):
            raise OverflowError(_TOO_LARGE)
        return made

    def backwards(self, values: Any, /) -> Any:
        """Perform ``reversed``."""
        return reversed(values)


def _is_generator(values: Any) -> bool:
    return type(values) is _GENERATOR


_GENERATOR = GeneratorType
