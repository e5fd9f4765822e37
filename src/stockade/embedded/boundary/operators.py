"""Guards of the arithmetic operators: price the operands by their types, then perform the operation.

The weave calls them only if its inline test fails: for operands that are not small numbers.
"""

from __future__ import annotations

import operator
from itertools import compress, islice
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.costs import HEAD, Costs
from stockade.embedded.boundary.facades import is_kind, joined
from stockade.embedded.boundary.kinds import DICTS
from stockade.embedded.boundary.owned import deque

if TYPE_CHECKING:
    from collections.abc import Callable

_OWED = 64 * prices.APPENDED


class Operators(Costs):
    """The guarded operators of one runtime."""

    def table(self) -> dict[str, Any]:
        """Return each guard by its name in woven code: plain and in-place forms."""
        table: dict[str, Any] = {}
        for name, (price, plain, in_place) in _OPERATORS.items():
            table[f"${name}"] = self._guard(price, plain)
            table[f"$i{name}"] = self._guard(price, in_place)
        table["$iadd"] = self._extending(table["$iadd"])
        table |= self.growing()
        table["$or"] = self._joining(table["$or"])
        table["$ior"] = self._merging(self._joining(table["$ior"]))
        table["$neg"], table["$pos"] = self._unary(operator.neg), self._unary(operator.pos)
        table["$inv"] = self._unary(operator.invert)
        return table

    def _guard(self, price: str, perform: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        pay, accounted = getattr(self, price), self.accounted

        def guard(left: Any, right: Any) -> Any:
            pay(left, right)
            return accounted(perform(left, right))

        return guard

    def _unary(self, perform: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def guard(value: Any) -> Any:
            self.scales.weigh(value)
            self.counts(value)
            return self.accounted(perform(value))

        return guard

    def _extending(self, add: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def guard(left: Any, right: Any) -> Any:
            if type(left) is list or type(left) is deque:
                self.extend(left, right)
                return left
            return add(left, right)

        return guard

    def _joining(self, perform: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def guard(left: Any, right: Any) -> Any:
            if is_kind(left) and is_kind(right) and not left is right is None:
                return joined(left, right)
            return perform(left, right)

        return guard

    def _merging(self, merge: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def guard(left: Any, right: Any) -> Any:
            if type(left) in DICTS and type(right) not in DICTS:
                raise TypeError(f"unsupported operand type(s) for |=: 'dict' and {type(right).__name__!r}")
            return merge(left, right)

        return guard

    def extend(self, target: Any, values: Any) -> None:
        """Append every element of ``values`` to a list or deque."""
        self.fits_elements(len(target))
        for batch in self.meter_batches(values, len(target)):
            target.extend(batch)

    def meter_batches(self, values: Any, held: int = 0) -> Any:
        """Return the elements of ``values`` in lists, each paid for, and none that takes a container over its cap."""
        source = self.metered(values)
        batches = []
        while batch := list(islice(source, 4096)):
            held += len(batch)
            self.fits_elements(held)
            batches.append(batch)
        return batches

    def metered(self, values: Any) -> Any:
        """Return an iterator that pays one unit for each element, and offers nothing else."""
        return compress(values, self.meter.units)

    def growing(self) -> dict[str, Any]:
        """Return what woven code needs for ``text += more``, which CPython does in place.

        Woven code adds the size of each text that it makes to ``$owed``, and calls the guard above ``$due`` bytes.
        """
        owed = [0]
        free = self.meter.value_cap // 4 - HEAD

        def grow(text: str, more: str) -> None:
            size = len(text) + len(more)
            if size > free:
                self.meter.fits((size if text.isascii() and more.isascii() else size * 4) + HEAD)
            if owed[0] > _OWED:
                units, owed[0] = owed[0] // prices.APPENDED, 0
                self.meter.charge(units)

        return {"$owed": owed, "$due": min(free, _OWED), "$grow": grow, "$len": len}


_OPERATORS: dict[str, tuple[str, Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "add": ("pay_add", operator.add, operator.iadd),
    "sub": ("pay_linear", operator.sub, operator.isub),
    "mul": ("pay_product", operator.mul, operator.imul),
    "div": ("pay_quotient", operator.truediv, operator.itruediv),
    "floordiv": ("pay_quotient", operator.floordiv, operator.ifloordiv),
    "pow": ("pay_power", operator.pow, operator.ipow),
    "lshift": ("pay_left_shift", operator.lshift, operator.ilshift),
    "rshift": ("pay_linear", operator.rshift, operator.irshift),
    "and": ("pay_linear", operator.and_, operator.iand),
    "or": ("pay_linear", operator.or_, operator.ior),
    "xor": ("pay_linear", operator.xor, operator.ixor),
    "matmul": ("pay_other", operator.matmul, operator.imatmul),
}
