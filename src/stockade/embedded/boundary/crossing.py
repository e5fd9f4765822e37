"""Values that cross the border: data only, copied, and counted while the copy is made."""

from __future__ import annotations

import collections
import datetime
from collections import Counter, OrderedDict
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary.kinds import MOMENTS, digits
from stockade.embedded.boundary.owned import defaultdict, deque

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_NODES = 1_000_000
MOST_DEPTH = 100
_FIXED = frozenset({type(None), bool, float, complex}) | MOMENTS
_LISTS: dict[Any, Any] = {list: list, tuple: tuple, set: set, frozenset: frozenset, deque: list}
_LISTS[collections.deque] = list
_DICTS = (dict, OrderedDict, defaultdict, collections.defaultdict, Counter)


class CannotCross(Exception):
    """A value is not data, or too large. ``args`` is the reason."""


class Crossing:
    """Copies one value. ``pay`` is called with the size of each node in bytes, and ``noticed`` with each number."""

    def __init__(self, pay: Callable[[int], None], most_bytes: int, noticed: Callable[[Any], Any]) -> None:
        self._pay, self._most, self._noticed = pay, most_bytes, noticed
        self._nodes = 0

    def copy(self, value: Any, depth: int = 0) -> Any:
        """Return a copy of ``value`` made of built-in data, or raise ``CannotCross``."""
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise CannotCross(f"it has more than {MOST_NODES:,} parts, shared ones counted each time")
        if depth > MOST_DEPTH:
            raise CannotCross(f"it is nested deeper than {MOST_DEPTH} levels")
        kind = type(value)
        if kind in _FIXED:
            if kind in MOMENTS:
                _check_zone(value)
            self._sized(16)
            return value
        if kind is str or kind is bytes:
            self._sized(len(value) * (1 if kind is bytes or value.isascii() else 4))
            return value
        if kind is int:
            self._sized(digits(value) * 4)
            return self._noticed(value)
        if kind is Decimal or kind is Fraction:
            self._sized(256 if kind is Decimal else digits(value.numerator) * 4 + digits(value.denominator) * 4)
            return self._noticed(value)
        return self._container(value, kind, depth)

    def _container(self, value: Any, kind: Any, depth: int) -> Any:
        if kind in _DICTS:
            self._sized(len(value) * 16)
            return {self.copy(key, depth + 1): self.copy(item, depth + 1) for key, item in value.items()}
        made = _LISTS.get(kind)
        if made is None:
            raise CannotCross(f"a value of type {kind.__name__!r} is not data")
        self._sized(len(value) * 8)
        items = [self.copy(each, depth + 1) for each in value]
        return made(items)

    def _sized(self, size: int) -> None:
        if size > self._most:
            raise CannotCross(f"a part of it is larger than {self._most:,} bytes")
        self._pay(size)


def _check_zone(value: Any) -> None:
    """Raise ``CannotCross`` if a time has a zone of another type, whose methods are not data."""
    zone = getattr(value, "tzinfo", None)
    if zone is not None and type(zone) is not datetime.timezone:
        raise CannotCross(f"a time zone of type {type(zone).__name__!r} is not data; use datetime.timezone")
