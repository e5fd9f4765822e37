"""Sets of types that the guards tell apart, and the weight of a value: the nodes of it that C code would visit."""

from __future__ import annotations

import datetime
from collections import Counter, OrderedDict
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from math import isqrt
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import attributes, prices
from stockade.embedded.boundary.owned import defaultdict, deque

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stockade.embedded.boundary.meter import Meter

INLINE_BITS = 62
"""Woven code adds and multiplies integers of this size without a guard."""
INTEGERS = frozenset({int, bool})
TEXTS = frozenset({str, bytes})
FLAT = frozenset({bool, float, complex, type(None)})
"""Types whose values have a small fixed size."""
SCALARS = FLAT | INTEGERS | TEXTS
DICTS = frozenset({dict, defaultdict, OrderedDict, Counter})
SETS = frozenset({set, frozenset})
VIEWS = frozenset(attributes.VIEWS)
KEY_VIEWS, VALUE_VIEWS, ITEM_VIEWS = (frozenset(attributes.VIEWS[place::3]) for place in range(3))
SEQUENCES = frozenset({list, tuple, deque})
CONTAINERS = DICTS | SETS | SEQUENCES | VIEWS
MOMENTS = frozenset({datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone})
NUMBERS = (FLAT - {type(None)}) | INTEGERS | {Decimal, Fraction}
BUILTIN = SCALARS | CONTAINERS | MOMENTS | {range, slice, Decimal, Fraction}
"""Types of built-in values. An instance of any other type is the script's own, or an iterator."""


def digits(value: Any) -> int:
    """Return the size of an integer in 30-bit digits."""
    return int(value.bit_length()) // 30 + 1


def product(left: Any, right: Any) -> int:
    """Return the products of digits in a multiplication. Above some 70 digits CPython needs fewer than all pairs."""
    small, big = sorted((digits(left), digits(right)))
    return big * min(small, 4 * isqrt(small))


class Scales:
    """Weighs values: pays for what C code does when it compares, hashes, or prints them."""

    def __init__(self, meter: Meter) -> None:
        self.meter, self.has_large = meter, False

    def weigh(self, value: Any, most: int = 1 << 62) -> int:
        """Pay for a visit of every node of ``value`` as a tree, and return their number.

        A value with parts that are shared many levels deep ends here by a cap instead of never. A part that contains
        itself is visited once. The walk keeps its own stack, so that it needs no frames of the script. It stops above
        ``most`` units.
        """
        total = self._single(value)
        if total:
            return total
        total = self._pay(1 + len(value) // prices.NODES)
        path = [(_parts(value), id(value))]
        opened = {id(value)}
        while path:
            parts, identity = path[-1]
            for part in parts:
                if type(part) in FLAT:
                    continue
                units = self._single(part)
                if units:
                    total += units
                elif total > most:
                    return total
                elif id(part) not in opened:
                    total += self._pay(prices.NESTED + len(part) // prices.NODES)
                    if not _is_flat(part):
                        opened.add(id(part))
                        path.append((_parts(part), id(part)))
                        break
            else:
                path.pop()
                opened.discard(identity)
        return total

    def _single(self, value: Any) -> int:
        """Pay for a value without parts and return its units, or return 0 for a container."""
        kind = type(value)
        if kind in FLAT:
            return 1
        if kind in TEXTS:
            return self._pay(1 + len(value) // prices.BYTES)
        if kind in INTEGERS:
            return self._pay(digits(value) // prices.DIGITS) or 1
        if kind is Fraction:
            return self._pay((digits(value.numerator) + digits(value.denominator)) ** 2 // prices.DIGITS) or 1
        return 0 if kind in CONTAINERS or isinstance(value, tuple) else 1

    def key(self, value: Any) -> Any:
        """Return ``value`` after paying for its hash, and for a comparison with an equal key."""
        kind = type(value)
        if kind is str or kind in FLAT:
            return value
        if kind is int:
            if value.bit_length() > prices.SMALL_BITS:
                self.weigh(value)
        elif (kind is tuple and not set(map(type, value)) <= SCALARS) or (
            kind is not tuple and (kind is frozenset or kind is Fraction or isinstance(value, tuple))
        ):
            self.weigh(value)
        elif kind is tuple and len(value) > prices.NODES:
            self._pay(len(value) // prices.NODES)
        return value

    def keys(self, values: Iterable[Any]) -> None:
        """Pay for the hashes of ``values``, a container whose length is paid for."""
        kinds = set(map(type, values)) - FLAT - TEXTS
        if kinds and (self.has_large or kinds != {int}):
            for value in values:
                self.key(value)

    def _pay(self, units: int) -> int:
        if units > 0:
            self.meter.charge(units)
        return units


def _parts(value: Any) -> Iterator[Any]:
    if type(value) in DICTS:
        return chain(value, value.values())
    return iter(value)


def _is_flat(value: Any) -> bool:
    if type(value) in DICTS:
        return set(map(type, value)) <= _SMALL and set(map(type, value.values())) <= FLAT
    return set(map(type, value)) <= FLAT


_SMALL = FLAT | {int}
