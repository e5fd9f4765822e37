"""Guards of slices: each copies as many elements as it selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.kinds import TEXTS

if TYPE_CHECKING:
    from stockade.embedded.boundary.iterating import Iterating
    from stockade.embedded.boundary.operators import Operators

_SHORT = 64


class Slices:
    """Slices of one runtime."""

    def __init__(self, operators: Operators, iterating: Iterating) -> None:
        self._operators, self._iterating, self._meter = operators, iterating, operators.meter

    def table(self) -> dict[str, Any]:
        """Return each guard by its name in woven code."""
        return {
            "$slice": _slice, "$getslice": self.get, "$setslice": self.set, "$delslice": self.delete,
            "$item": self.item, "$index": self.index, "$place": self.place,
        }  # fmt: skip

    def item(self, value: Any, index: Any) -> Any:
        """Return ``value[index]``."""
        return value[self.index(value, index)]

    def index(self, value: Any, index: Any) -> Any:
        """Return the index of an element or part of ``value`` that is read, after paying for its hash or the copy.

        A method ``__getitem__`` of the script receives slices, so any name can hold one.
        """
        if type(index) is slice:
            self._pay(value, index)
            return index
        return self._operators.scales.key(index)

    def place(self, index: Any) -> Any:
        """Return an index that is assigned to or deleted. A slice would take all elements of an iterable."""
        if type(index) is slice:
            raise TypeError("a slice that has a name cannot be assigned to in scripts: write its bounds")
        return self._operators.scales.key(index)

    def get(self, value: Any, part: slice) -> Any:
        """Return ``value[part]``."""
        self._pay(value, part)
        return value[part]

    def _pay(self, value: Any, part: slice) -> None:
        kind = type(value)
        if kind in TEXTS:
            if len(value) > prices.BYTES:
                self._meter.charge(1 + len(value) // prices.BYTES)
        elif (kind is list or isinstance(value, tuple)) and len(value) > _SHORT:
            self._meter.charge(len(range(*part.indices(len(value)))) // (prices.NODES * 4))

    def set(self, value: Any, part: slice, items: Any) -> None:
        """Perform ``value[part] = items``."""
        if type(value) is list:
            items = self._iterating.star(items)
            self._operators.fits_elements(len(value) + len(items))
            self._meter.charge(1 + len(value) // prices.BYTES)
        value[part] = items

    def delete(self, value: Any, part: slice) -> None:
        """Perform ``del value[part]``."""
        if type(value) is list:
            self._meter.charge(1 + len(value) // (prices.NODES * 4))
        del value[part]


def _slice(*bounds: Any) -> slice:
    """Return a slice of plain bounds. CPython would compare and print any other bound without a price."""
    if not set(map(type, bounds)) <= _BOUNDS:
        raise TypeError("slice indices must be integers or None in scripts")
    return slice(*bounds)


_BOUNDS = frozenset({int, bool, type(None)})
