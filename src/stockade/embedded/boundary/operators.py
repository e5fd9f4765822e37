"""Guards of the arithmetic operators: price the operands by their types, then perform the operation.

The weave calls them only if its inline test fails: for operands that are not small numbers. A price is a function of
both operands in ``_PRICES``, by operator and type of the left operand. Types without a price are the script's own
classes, whose methods pay for themselves, or have operations of a small fixed cost.
"""

from __future__ import annotations

import operator
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import compress, islice
from math import isqrt
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.kinds import (
    CONTAINERS,
    DICTS,
    INTEGERS,
    NUMBERS,
    SEQUENCES,
    SETS,
    TEXTS,
    VIEWS,
    Scales,
    digits,
    product,
)
from stockade.embedded.boundary.owned import deque

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.meter import Meter

MOST_DECIMAL_EXPONENT = 10_000
_SHORT = 256
_OWED = 64 * prices.APPENDED
_HEAD = 64  # bytes of an object's head


class Operators:
    """The guarded operators of one runtime. ``grow`` is called when an integer above ``prices.SMALL_BITS`` appears."""

    def __init__(self, meter: Meter, scales: Scales, grow: Callable[[], None]) -> None:
        self.meter, self.scales, self._noticed_growth = meter, scales, grow

    @property
    def has_large(self) -> bool:
        """Return whether an integer above ``prices.SMALL_BITS`` has appeared."""
        return self.scales.has_large

    def table(self) -> dict[str, Any]:
        """Return each guard by its name in woven code: plain and in-place forms."""
        table: dict[str, Any] = {}
        for name, (price, plain, in_place) in _OPERATORS.items():
            table[f"${name}"] = self._guard(price, plain)
            table[f"$i{name}"] = self._guard(price, in_place)
        table["$iadd"] = self._extending(table["$iadd"])
        table["$grow"] = self.growing()
        table["$ior"] = self._merging(table["$ior"])
        table["$neg"], table["$pos"] = self._unary(operator.neg), self._unary(operator.pos)
        table["$inv"] = self._unary(operator.invert)
        return table

    def _guard(self, price: str, perform: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        pay, settled = getattr(self, price), self.settled

        def guard(left: Any, right: Any) -> Any:
            pay(left, right)
            return settled(perform(left, right))

        return guard

    def _unary(self, perform: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def guard(value: Any) -> Any:
            self.scales.weigh(value)
            self.counts(value)
            return self.settled(perform(value))

        return guard

    def _extending(self, add: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def guard(left: Any, right: Any) -> Any:
            if type(left) is list or type(left) is deque:
                self.extend(left, right)
                return left
            return add(left, right)

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

    def fits_elements(self, count: int) -> None:
        """End the script if a container of ``count`` elements is over the cap."""
        if count * 8 > self.meter.value_cap - _HEAD and count:
            self.meter.fits(count * 8 + _HEAD)

    def _grow(self) -> None:
        self.scales.has_large = True
        self._noticed_growth()

    def noticed(self, value: int) -> int:
        """Return an integer that a guard made. The runtime then prices all arithmetic if it is large."""
        bits = value.bit_length()
        if bits > prices.SMALL_BITS:
            self._grow()
            self.meter.fits(bits // 8 + 32)
        return value

    def settled(self, result: Any) -> Any:
        """Return what arithmetic made, after noticing every large integer in it."""
        kind = type(result)
        if kind is int:
            return self.noticed(result)
        if kind is Fraction:
            self.noticed(result.numerator)
            self.noticed(result.denominator)
        elif kind is Counter:
            for count in result.values():
                self.settled(count)
        return result

    def counts(self, value: Any) -> None:
        """Refuse a counter with counts that are no numbers: its methods add them without a price."""
        if type(value) is Counter and not set(map(type, value.values())) <= NUMBERS:
            raise TypeError("counts must be numbers in scripts")

    def pay_add(self, left: Any, right: Any) -> None:
        """Pay for ``left + right``."""
        kind = type(left)
        if kind in TEXTS and type(right) is kind:
            self.sized(len(left) + len(right), left, right)
        elif kind in INTEGERS:
            self.pay_linear(left, right)
        elif kind in SEQUENCES or isinstance(left, tuple):
            if isinstance(right, (list, tuple, deque)):
                count = len(left) + len(right)
                self.fits_elements(count)
                self.meter.charge(1 + count // prices.NODES)
        else:
            self.pay_other(left, right)

    def growing(self) -> Callable[[str, Any], None]:
        """Return the guard of ``text += more``, which CPython does in place unless something else refers to ``text``.

        The guard is called for each piece, so it adds up what is owed and pays from time to time.
        """
        owed = 0
        free = self.meter.value_cap // 4 - _HEAD

        def grow(text: str, more: Any) -> None:
            nonlocal owed
            if type(more) is not str:
                return
            size = len(text) + len(more)
            owed += size
            if size > free:
                self.meter.fits((size if text.isascii() and more.isascii() else size * 4) + _HEAD)
            if owed > _OWED:
                units, owed = owed // prices.APPENDED, 0
                self.meter.charge(units)

        return grow

    def pay_linear(self, left: Any, right: Any) -> None:
        """Pay for an operation that visits each digit or element of both operands once."""
        if type(left) in INTEGERS and type(right) in INTEGERS:
            bits = max(left.bit_length(), right.bit_length())
            if bits > prices.SMALL_BITS:
                self.meter.fits(bits // 8 + 32)
                self.meter.charge(1 + bits // 30 // prices.DIGITS)
            return
        self.pay_other(left, right)

    def pay_product(self, left: Any, right: Any) -> None:
        """Pay for ``left * right``: of integers, or of a sequence and an integer."""
        if type(left) in INTEGERS and type(right) in INTEGERS:
            bits = left.bit_length() + right.bit_length()
            if bits > prices.SMALL_BITS:
                self.meter.fits(bits // 8 + 24)
                self.meter.charge(1 + product(left, right) // prices.DIGITS)
            return
        for value, times in ((left, right), (right, left)):
            if type(value) in TEXTS or type(value) in SEQUENCES or isinstance(value, tuple):
                self._pay_repeat(value, times)
                return
        self.pay_other(left, right)

    def _pay_repeat(self, value: Any, times: Any) -> None:
        if type(times) not in INTEGERS:
            if not hasattr(type(times), "__index__"):
                return  # CPython raises TypeError, or calls a method of the script's own
            raise TypeError(f"can't multiply sequence by non-int of type {type(times).__name__!r}")
        if times > 0 and len(value) > 0:
            if type(value) in TEXTS:
                self.sized(len(value) * times, value)
            else:
                self.fits_elements(len(value) * times)
                self.meter.charge(1 + len(value) * times // prices.NODES)

    def sized(self, length: int, *texts: Any) -> None:
        """Pay for text or bytes of ``length`` that is made from ``texts``."""
        if length > _SHORT:
            narrow = all(type(text) is bytes or text.isascii() for text in texts)
            size = length + _HEAD if narrow else length * 4 + _HEAD
            self.meter.fits(size)
            self.meter.charge(1 + size // prices.BYTES)

    def pay_quotient(self, left: Any, right: Any) -> None:
        """Pay for a division of integers."""
        if type(left) in INTEGERS and type(right) in INTEGERS:
            size = digits(left) * digits(right)
            if size > prices.DIGITS:
                self.meter.charge(size // prices.DIGITS)
            return
        self.pay_other(left, right)

    def pay_power(self, left: Any, right: Any) -> None:
        """Pay for ``left ** right``."""
        is_whole = type(right) is Fraction and right.denominator == 1
        if (type(right) in INTEGERS or is_whole) and (type(left) in INTEGERS or type(left) is Fraction):
            power = right.numerator
            base = max(left.numerator.bit_length(), left.denominator.bit_length())
            bits = base * abs(power) if base > 1 or power.bit_length() > 62 else base
            if type(left) in INTEGERS and ((power < 0 and not is_whole) or abs(left) <= 1):
                return
            if bits > 512:
                self.meter.fits(bits // 8 + 32)
                self.meter.charge(1 + (bits // 30) * min(bits // 30, 4 * isqrt(bits // 30)) // prices.DIGITS)
            return
        self.pay_other(left, right)

    def pay_left_shift(self, left: Any, right: Any) -> None:
        """Pay for ``left << right``."""
        if type(left) in INTEGERS and type(right) in INTEGERS:
            if right > 0 and left:
                bits = left.bit_length() + right
                self.meter.fits(bits // 8 + 24)
                if bits > prices.SMALL_BITS:
                    self.meter.charge(1 + bits // 30 // prices.DIGITS)
            return
        self.pay_other(left, right)

    def pay_other(self, left: Any, right: Any) -> None:
        """Pay for an operation of sets, mappings, fractions and counters."""
        is_view = type(left) in VIEWS or type(right) in VIEWS
        if is_view and not {type(left), type(right)} <= CONTAINERS:
            raise TypeError("a view needs another built-in container on the other side in scripts")
        for value in (left, right):
            kind = type(value)
            if kind in SETS or kind in DICTS or is_view or kind is Fraction:
                self.counts(value)
                self.scales.weigh(value)
                if kind is Fraction:
                    self.meter.charge(prices.FRACTION)
                if kind is Fraction and max(digits(value.numerator), digits(value.denominator)) > 64:
                    self.meter.fits((digits(value.numerator) + digits(value.denominator)) * 8)
                    self._grow()
            elif kind is Decimal:
                self.meter.charge(prices.FRACTION + len(value.as_tuple().digits) // prices.NODES)
            elif kind in INTEGERS and value.bit_length() > prices.SMALL_BITS:
                self.meter.charge(1 + digits(value) ** 2 // prices.DIGITS)


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
