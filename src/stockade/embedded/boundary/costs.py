"""Prices of operators by their operands: what CPython does for a sum, a product or a power of these two values.

A price is a function of both operands. Types without a price are the script's own classes, whose methods pay for
themselves, or have operations of a small fixed cost.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction
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

_SHORT = 256
HEAD = 64  # bytes of an object's head


class Costs:
    """The prices of one runtime. ``grow`` is called when an integer above ``prices.SMALL_BITS`` appears."""

    def __init__(self, meter: Meter, scales: Scales, grow: Callable[[], None]) -> None:
        self.meter, self.scales, self._noticed_growth = meter, scales, grow

    @property
    def has_large(self) -> bool:
        """Return whether an integer above ``prices.SMALL_BITS`` has appeared."""
        return self.scales.has_large

    def fits_elements(self, count: int) -> None:
        """End the script if a container of ``count`` elements is over the cap."""
        if count * 8 > self.meter.value_cap - HEAD and count:
            self.meter.fits(count * 8 + HEAD)

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

    def accounted(self, result: Any) -> Any:
        """Return what arithmetic made, after noticing every large integer in it."""
        kind = type(result)
        if kind is int:
            return self.noticed(result)
        if kind is Fraction:
            self.noticed(result.numerator)
            self.noticed(result.denominator)
        elif kind is Counter:
            for count in result.values():
                self.accounted(count)
        return result

    def counts(self, value: Any) -> None:
        """Refuse a counter with counts other than numbers: its methods add them without a price."""
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
            size = length + HEAD if narrow else length * 4 + HEAD
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
