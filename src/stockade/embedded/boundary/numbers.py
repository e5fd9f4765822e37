"""Guards of numbers and moments: conversions, rounding, and methods whose result can be large."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from operator import index
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.kinds import INTEGERS, digits
from stockade.embedded.boundary.rendering import check_directives

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.operators import Operators

_MISSING = object()
MOST_EXPONENT = 10_000
MOST_DIGITS = 2000
"""Digits of a ``Decimal``: its methods are free, and each takes time and memory by the digits."""
_EXPONENT = re.compile(r"[eE][-+]?([\d_]+)\s*$")


class Numbers:
    """The guarded functions and methods of numbers and moments, for one runtime."""

    def __init__(self, operators: Operators, pay_spec: Callable[[str], None]) -> None:
        self.operators, self.meter, self._pay_spec = operators, operators.meter, pay_spec

    def make_int(self, value: Any = 0, /, base: Any = _MISSING) -> Any:
        """Perform ``int``."""
        if type(value) in (str, bytes):
            if len(value) > 64:
                size = len(value) * 4 // 30
                self.meter.fits(len(value) // 2)
                self.meter.charge(1 + size * size // prices.DIGITS)
        else:
            self.bounded(value)
        return self.operators.noticed(int(value) if base is _MISSING else int(value, base))

    def make_float(self, value: Any = 0.0, /) -> Any:
        """Perform ``float``."""
        if type(value) in (str, bytes):
            self.meter.charge(1 + len(value) // 64)
        else:
            self.bounded(value)
        return float(value)

    def make_complex(self, *args: Any, **kwargs: Any) -> Any:
        """Perform ``complex``."""
        for value in (*args, *kwargs.values()):
            self.bounded(value)
            if type(value) is str:
                self.meter.charge(1 + len(value) // 64)
        return complex(*args, **kwargs)

    def bounded(self, value: Any) -> None:
        """Refuse a number whose integer would have a very large number of digits, and pay for large integers."""
        if type(value) is Decimal:
            if value.is_finite() and abs(value.adjusted()) > MOST_EXPONENT:
                raise OverflowError("a Decimal with this exponent is too large")
            self.meter.charge(1 + len(value.as_tuple().digits) ** 2 // (9 * prices.DIGITS))
        elif type(value) in INTEGERS and value.bit_length() > prices.SMALL_BITS:
            self.meter.charge(1 + digits(value) ** 2 // prices.DIGITS)
        elif type(value) is Fraction:
            self.operators.scales.weigh(value)

    def make_fraction(self, numerator: Any = 0, denominator: Any = None) -> Any:
        """Return a ``Fraction``."""
        for value in (numerator, denominator):
            self.bounded(value)
            if type(value) is str:
                self._text_exponent(value)
            elif value is not None and type(value) not in (int, bool, float, Decimal, Fraction):
                raise TypeError("argument should be a string, a number or a Fraction")
        return self.operators.accounted(Fraction(numerator, denominator))

    def make_decimal(self, value: Any = "0", /) -> Any:
        """Return a ``Decimal``."""
        if type(value) is str:
            self.meter.charge(1 + len(value) // prices.NODES)
        elif type(value) not in (int, bool, float, Decimal, tuple):
            raise TypeError(f"conversion from {type(value).__name__} to Decimal is not supported")
        self.bounded(value)
        if _has_many_digits(value):
            raise OverflowError(f"a Decimal of more than {MOST_DIGITS:,} digits is not available in scripts")
        return Decimal(value)

    def _text_exponent(self, value: str) -> None:
        size = len(value)
        self.meter.charge(1 + size * size // prices.DIGITS)
        found = _EXPONENT.search(value)
        if found is not None and (len(found[1]) > 9 or int(found[1].replace("_", "") or 0) > MOST_EXPONENT):
            raise OverflowError("the exponent is too large")

    def rounded(self, number: Any, ndigits: Any = None) -> Any:
        """Perform ``round``."""
        self.bounded(number)
        if ndigits is None:
            return self.operators.accounted(round(number))
        if type(ndigits) not in INTEGERS or abs(ndigits) > MOST_EXPONENT:
            raise TypeError(f"round() takes an integer of at most {MOST_EXPONENT:,} digits")
        if type(number) in INTEGERS or type(number) is Fraction:
            self.meter.charge(1 + (abs(ndigits) // 9) ** 2 // prices.DIGITS)
        return self.operators.accounted(round(number, ndigits))

    def absolute(self, value: Any, /) -> Any:
        """Perform ``abs``."""
        self.bounded(value)
        return abs(value)

    def based(self, perform: Callable[[Any], str]) -> Callable[[Any], str]:
        """Return the guard of ``bin``, ``oct`` or ``hex``."""

        def guard(value: Any, /) -> str:
            value = index(value)
            if value.bit_length() > prices.SMALL_BITS:
                self.operators.sized(value.bit_length())
            return perform(value)

        return guard

    def divided(self, left: Any, right: Any, /) -> Any:
        """Perform ``divmod``."""
        self.operators.pay_quotient(left, right)
        result = divmod(left, right)
        return tuple(map(self.operators.accounted, result)) if type(result) is tuple else result

    def raised(self, base: Any, exp: Any, mod: Any = None) -> Any:
        """Perform ``pow``."""
        if mod is None:
            self.operators.pay_power(base, exp)
            return self.operators.accounted(pow(base, exp))
        if not (type(base) in INTEGERS and type(exp) in INTEGERS and type(mod) in INTEGERS):
            raise TypeError("pow() 3rd argument not allowed unless all arguments are integers")
        self.meter.charge(1 + digits(base) * digits(mod) // prices.DIGITS)
        self.meter.charge(1 + exp.bit_length() * digits(mod) ** 2 * 2 // prices.DIGITS)
        return pow(base, exp, mod)

    def int_to_bytes(self, value: Any, length: Any = 1, byteorder: str = "big", *, signed: bool = False) -> bytes:
        """Perform ``to_bytes``."""
        if type(length) is not int:
            raise TypeError("length must be an integer")
        self.operators.sized(length, b"")
        return int(value).to_bytes(length, byteorder, signed=signed)  # type: ignore[arg-type]

    def int_from_bytes(self, _receiver: Any, value: Any, byteorder: str = "big", *, signed: bool = False) -> int:
        """Perform ``from_bytes``, which ignores its receiver."""
        if type(value) is not bytes:
            raise TypeError("cannot convert to an integer: bytes are needed")
        self.operators.sized(len(value), b"")
        return self.operators.noticed(int.from_bytes(value, byteorder, signed=signed))  # type: ignore[arg-type]

    @staticmethod
    def int_as_integer_ratio(value: Any) -> Any:
        """Perform ``as_integer_ratio``."""
        return value.as_integer_ratio()

    float_as_integer_ratio = fraction_as_integer_ratio = int_as_integer_ratio

    @staticmethod
    def float_hex(value: float) -> str:
        """Perform ``hex`` of a float."""
        return value.hex()

    def fraction_limit_denominator(self, value: Fraction, max_denominator: int = 1_000_000) -> Fraction:
        """Perform ``limit_denominator``."""
        self.meter.charge(1 + digits(value.denominator) ** 2)
        return value.limit_denominator(max_denominator)

    def moment_strftime(self, value: Any, template: Any, /) -> str:
        """Perform ``strftime``. A width in the template counts as in a format."""
        if type(template) is not str:
            raise TypeError("strftime() argument must be str")
        self._pay_spec(template)
        check_directives(template)
        self.meter.charge(1 + len(template))
        result = str(value.strftime(template))
        self.operators.sized(len(result), result)
        return result

    def moment_strptime(self, _value: Any, *_args: Any) -> Any:
        """Refuse ``strptime`` of an instance: the class has it."""
        raise AttributeError("use the class for strptime")

    @staticmethod
    def moment_timestamp(value: Any) -> float:
        """Perform ``timestamp`` of a moment with a time zone. A moment without one would reveal the host's zone."""
        if value.tzinfo is None:
            raise ValueError("timestamp() needs a datetime with a time zone in scripts")
        return float(value.timestamp())

    @staticmethod
    def moment_replace(value: Any, *args: Any, **kwargs: Any) -> Any:
        """Perform ``replace``."""
        return value.replace(*args, **kwargs)


def _has_many_digits(value: Any) -> bool:
    """Return whether the ``Decimal`` of a text, an integer or a tuple would have more than ``MOST_DIGITS``."""
    if type(value) is int:
        return value.bit_length() > MOST_DIGITS * 10 // 3
    given = value[1] if type(value) is tuple and len(value) == 3 else value
    return type(given) in (str, tuple, list) and len(given) > MOST_DIGITS
