"""Guards of comparisons and of ``in``: C code compares nested values node by node, so each guard pays first."""

from __future__ import annotations

import operator
from decimal import Decimal
from fractions import Fraction
from itertools import compress
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.kinds import (
    CONTAINERS,
    DICTS,
    FLAT,
    INTEGERS,
    ITEM_VIEWS,
    KEY_VIEWS,
    MOMENTS,
    SCALARS,
    SETS,
    TEXTS,
    VALUE_VIEWS,
    digits,
)
from stockade.embedded.boundary.owned import deque

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stockade.embedded.boundary.operators import Operators

_SHORT = 256
_EXACT = frozenset({Decimal, Fraction})
_FEW = 32
_LISTS = VALUE_VIEWS | {list, tuple, deque}
_ORDERED = SCALARS | MOMENTS


class Comparing:
    """The guarded comparisons of one runtime."""

    def __init__(self, operators: Operators) -> None:
        self.operators, self.scales, self.meter = operators, operators.scales, operators.meter
        self.equal, self.less = self._guard(operator.eq), self._guard(operator.lt)

    def table(self) -> dict[str, Any]:
        """Return each guard by its name in woven code."""
        table = {f"${name}": self._guard(perform) for name, perform in _COMPARISONS.items()}
        return table | {"$in": self.contains, "$notin": lambda item, values: not self.contains(item, values)}

    def _guard(self, perform: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        pay = self.pay

        def guard(left: Any, right: Any) -> Any:
            pay(left, right)
            return perform(left, right)

        return guard

    def pay(self, left: Any, right: Any) -> None:
        """Pay for a comparison of two values."""
        kind = type(left)
        if kind in _EXACT or type(right) in _EXACT:
            self._pay_exact(left, right)
        if kind in FLAT:
            return
        if kind in TEXTS:
            if len(left) > _SHORT and type(right) is kind:
                self.meter.charge(1 + min(len(left), len(right)) // prices.BYTES)
        elif kind in INTEGERS:
            if left.bit_length() > prices.SMALL_BITS:
                self.scales.weigh(left)
        elif self._same_family(left, right):
            self.scales.weigh(left)
            self.scales.weigh(right)

    def _pay_exact(self, left: Any, right: Any) -> None:
        """Pay for a comparison with a fraction or a decimal number, which multiplies or converts the other number."""
        size = sum(map(_digits, (left, right)))
        if size > _FEW:
            self.meter.charge(1 + size * size // prices.DIGITS)

    @staticmethod
    def _same_family(left: Any, right: Any) -> bool:
        kind, other = type(left), type(right)
        if kind in CONTAINERS or isinstance(left, tuple):
            return other in CONTAINERS or isinstance(right, tuple)
        return kind not in MOMENTS

    def elements(self, values: Any) -> None:
        """Pay for sorting ``values``, or for finding one among them: each comparison costs what its elements weigh."""
        kinds = set(map(type, values))
        rounds = max(1, len(values).bit_length())
        if kinds <= FLAT | INTEGERS:
            self.meter.charge(1 + len(values) * rounds // (prices.NODES * 8))
            if self.operators.has_large:
                self.meter.charge(rounds * sum(map(_bits, values)) // 30 // prices.DIGITS)
            return
        if kinds <= TEXTS:
            text = sum(map(len, values))
            self.meter.charge(1 + rounds * (len(values) // (prices.NODES * 4) + text // prices.BYTES))
            return
        if kinds <= _ORDERED:
            self.meter.charge(1 + len(values) * rounds // prices.NODES)
            return
        total = sum(map(self.scales.weigh, values))
        self.meter.charge(1 + total * rounds // prices.NODES)

    def contains(self, item: Any, values: Any) -> bool:
        """Return ``item in values``."""
        kind = type(values)
        if kind in DICTS or kind in SETS or kind in KEY_VIEWS:
            return self.scales.key(item) in values
        if kind in TEXTS:
            if type(item) in TEXTS and len(values) > _SHORT:
                self.meter.charge(1 + (len(values) + len(item)) // prices.BYTES)
            return item in values
        if kind in _LISTS:
            self._pay_search(item, values)
            return item in values
        if kind is range:
            return item in values if type(item) in INTEGERS else _in_range(item, values)
        if kind in ITEM_VIEWS:
            return self.scales.key(item) in values
        return self._contains_other(item, values)

    def _contains_other(self, item: Any, values: Any) -> bool:
        if isinstance(values, tuple):
            self._pay_search(item, values)
            return item in values
        if hasattr(type(values), "__contains__"):
            return item in values
        return any(each is item or self.equal(each, item) for each in compress(values, self.meter.units))

    def _pay_search(self, item: Any, values: Iterable[Any]) -> None:
        count = len(values)  # type: ignore[arg-type]
        self.meter.charge(1 + count // (prices.NODES * 8))
        kind = type(item)
        if kind in FLAT or kind in INTEGERS:
            return
        if kind in TEXTS:
            if len(item) > _SHORT:
                self.meter.charge(count * len(item) // prices.BYTES)
            return
        if kind in CONTAINERS or isinstance(item, tuple):
            self.meter.charge(1 + self.scales.weigh(item) * count // prices.NODES)
            return
        for each in compress(values, self.meter.units):
            if type(each) in CONTAINERS:
                self.scales.weigh(each)

    def search(self, item: Any, values: Any) -> None:
        """Pay for a search of ``item`` in a list, tuple or deque by a method."""
        self._pay_search(item, values)


def _bits(value: Any) -> int:
    return value.bit_length() if type(value) is int else 1


def _in_range(item: Any, values: range) -> bool:
    """Return ``item in values`` for what is not an integer. CPython would compare each element."""
    if type(item) is float or type(item) is complex:
        if item != item or item in (float("inf"), float("-inf")) or (type(item) is complex and item.imag):
            return False
        number = item.real
        return number == int(number) and int(number) in values
    if type(item) in SCALARS or type(item) in CONTAINERS or type(item) in MOMENTS or isinstance(item, type):
        return False
    raise TypeError(f"'in' with a range needs a number, not {type(item).__name__!r}")


def _digits(value: Any) -> int:
    kind = type(value)
    if kind is Fraction:
        return digits(value.numerator) + digits(value.denominator)
    if kind is Decimal:
        return len(value.as_tuple().digits) // 9
    return digits(value) if kind in INTEGERS else 0


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
