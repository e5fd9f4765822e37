"""``math``, ``statistics``, ``decimal`` and ``fractions``."""

from __future__ import annotations

import decimal as real_decimal
import math as real_math
import statistics as real_statistics
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from stockade.embedded.boundary import prices
from stockade.embedded.boundary.kinds import INTEGERS, digits

if TYPE_CHECKING:
    from collections.abc import Callable

    from stockade.embedded.boundary.namespace import Namespace

_FLOAT = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos", "cosh", "degrees", "erf",
    "erfc", "exp", "exp2", "expm1", "fabs", "fmod", "frexp", "gamma", "isclose", "isfinite", "isinf", "isnan", "ldexp",
    "lgamma", "log", "log10", "log1p", "log2", "modf", "nextafter", "pow", "radians", "remainder", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc", "ulp", "floor", "ceil",
)  # fmt: skip
_STATISTICS = (
    "mean", "fmean", "geometric_mean", "harmonic_mean", "median", "median_low", "median_high", "mode", "multimode",
    "pstdev", "pvariance", "stdev", "variance", "quantiles", "correlation", "covariance",
)  # fmt: skip
_OVER_SEQUENCES = ("harmonic_mean", "correlation", "covariance")
MOST_QUANTILES = 1000
_ROUNDING = tuple(
    f"ROUND_{name}" for name in ("CEILING", "DOWN", "FLOOR", "HALF_DOWN", "HALF_EVEN", "HALF_UP", "UP", "05UP")
)


def math(space: Namespace) -> dict[str, Any]:
    """Return the members of ``math``."""
    members: dict[str, Any] = {name: getattr(real_math, name) for name in ("pi", "e", "tau", "inf", "nan")}
    members |= {name: _bounded(space, getattr(real_math, name)) for name in _FLOAT if hasattr(real_math, name)}
    whole = _Whole(space)
    return members | {
        "factorial": whole.factorial, "comb": whole.comb, "perm": whole.perm, "gcd": whole.gcd, "lcm": whole.lcm,
        "isqrt": whole.isqrt, "prod": whole.prod, "fsum": lambda values: real_math.fsum(space.bulk.taken(values)),
        "hypot": _bounded(space, real_math.hypot),
        "dist": lambda one, other: real_math.dist(space.bulk.taken(one), space.bulk.taken(other)),
    }  # fmt: skip


def _bounded(space: Namespace, perform: Callable[..., Any]) -> Callable[..., Any]:
    bounded, noticed = space.numbers.bounded, space.operators.noticed

    def guard(*values: Any, **options: Any) -> Any:
        for value in values:
            if type(value) is not float:
                bounded(value)
        result = perform(*values, **options)
        return noticed(result) if type(result) is int else result

    return guard


class _Whole:
    """Functions of whole numbers."""

    def __init__(self, space: Namespace) -> None:
        self._space, self._operators, self._meter = space, space.operators, space.meter

    def _integers(self, *values: Any) -> None:
        for value in values:
            if type(value) not in INTEGERS:
                raise TypeError(f"{type(value).__name__!r} object cannot be interpreted as an integer")

    def _sized(self, bits: int) -> None:
        if bits > prices.SMALL_BITS:
            self._meter.fits(bits // 8)
            self._meter.charge(1 + (bits // 30) ** 2 // prices.DIGITS)

    def factorial(self, n: Any, /) -> int:
        """Perform ``factorial``."""
        self._integers(n)
        if n > 1:
            self._sized(n * n.bit_length())
            self._meter.charge(1 + n // prices.NODES)
        return self._operators.noticed(real_math.factorial(n))

    def comb(self, n: Any, k: Any, /) -> int:
        """Perform ``comb``."""
        return self._chosen(real_math.comb, n, k)

    def perm(self, n: Any, k: Any = None, /) -> int:
        """Perform ``perm``."""
        return self.factorial(n) if k is None else self._chosen(real_math.perm, n, k)

    def _chosen(self, perform: Callable[[int, int], int], n: Any, k: Any) -> int:
        self._integers(n, k)
        steps = min(k, n - k) if perform is real_math.comb else k
        if steps > 0 and k <= n:
            self._sized(steps * n.bit_length())
            self._meter.charge(1 + steps * digits(n) // prices.NODES)
        return self._operators.noticed(perform(n, k))

    def gcd(self, *values: Any) -> int:
        """Perform ``gcd``."""
        self._integers(*values)
        for value in values:
            self._meter.charge(1 + digits(value) ** 2 // prices.DIGITS)
        return real_math.gcd(*values)

    def lcm(self, *values: Any) -> int:
        """Perform ``lcm``."""
        self._integers(*values)
        self._sized(sum(value.bit_length() for value in values))
        return self._operators.noticed(real_math.lcm(*values))

    def isqrt(self, n: Any, /) -> int:
        """Perform ``isqrt``."""
        self._integers(n)
        self._meter.charge(1 + digits(n) ** 2 // prices.DIGITS)
        return real_math.isqrt(n)

    def prod(self, values: Any, /, *, start: Any = 1) -> Any:
        """Perform ``prod`` by the guard of ``*``."""
        multiply = self._space.guards["$mul"]
        for value in self._space.iterating.metered(values):
            start = multiply(start, value)
        return start


def statistics(space: Namespace) -> dict[str, Any]:
    """Return the members of ``statistics``, for numbers."""
    return {name: _over_numbers(space, getattr(real_statistics, name)) for name in _STATISTICS} | {
        "StatisticsError": ValueError,
    }


def _over_numbers(space: Namespace, perform: Callable[..., Any]) -> Callable[..., Any]:
    def guard(*values: Any, **options: Any) -> Any:
        if options.keys() - {"n", "method", "weights"}:
            raise TypeError("statistics take n, method and weights in scripts")
        parts = options.get("n", 1)
        if type(parts) is not int or not 0 < parts <= MOST_QUANTILES:
            raise ValueError(f"n is between 1 and {MOST_QUANTILES:,} in scripts")
        if options.get("weights") is not None:
            options["weights"] = _numbers(space, options["weights"])
        if perform.__name__ in _OVER_SEQUENCES and not {type(value) for value in values} <= {list, tuple, range}:
            raise TypeError(f"{perform.__name__}: statistics need numbers in lists or tuples")
        given = [value if type(value) in (int, float) else _numbers(space, value) for value in values]
        space.meter.charge(1 + parts)
        try:
            return space.operators.accounted(perform(*given, **options))
        except real_statistics.StatisticsError as error:
            raise ValueError(str(error)) from None

    return guard


def _numbers(space: Namespace, values: Any) -> list[Any]:
    """Return numbers, or the texts of ``mode``, each paid for."""
    taken = space.bulk.taken(values)
    space.meter.charge(1 + 4 * len(taken))
    space.scales.weigh(taken)
    if not {type(each) for each in taken} <= {int, float, bool, str, Decimal, Fraction}:
        raise TypeError("statistics need numbers")
    for each in taken:
        space.numbers.bounded(each)
    exact = [each for each in taken if type(each) in (Decimal, Fraction)]
    if exact:
        size = sum(map(_size, exact))
        space.meter.charge(4 * size * size // prices.DIGITS)
        space.comparing.elements(exact)
    return taken


def _size(value: Any) -> int:
    """Return the digits of an exact number as a fraction: a sum of such numbers is computed in fractions."""
    if type(value) is Fraction:
        return digits(value.numerator) + digits(value.denominator)
    return int(len(value.as_tuple().digits) + abs(value.adjusted())) // 9 + 1


def decimal(space: Namespace) -> dict[str, Any]:
    """Return the members of ``decimal``. The context is CPython's default one, and cannot be changed."""
    facade = space.classes.facade("Decimal", Decimal, space.numbers.make_decimal)
    return {"Decimal": facade} | {name: getattr(real_decimal, name) for name in _ROUNDING}


def fractions(space: Namespace) -> dict[str, Any]:
    """Return the members of ``fractions``."""
    return {"Fraction": space.classes.facade("Fraction", Fraction, space.numbers.make_fraction)}
