"""Compare an output with the expected one: pure functions on text that return the first difference, or nothing."""

from __future__ import annotations

import decimal
import math
import re
from itertools import zip_longest

from stockade.batch.records import Case

_SHOWN = 60


def difference(case: Case, output: str) -> str:
    """Return a sentence about the first difference between ``output`` and what ``case`` expects; empty if none."""
    if case.expected is None:
        return ""
    match case.compare:
        case "exact":
            return _compare_exactly(case.expected, output)
        case "lines":
            return _compare_pieces("line", _lines(case.expected), _lines(output))
        case "tokens":
            return _compare_pieces("token", case.expected.split(), output.split())
        case "floats":
            return _compare_floats(case.expected.split(), output.split(), case.tolerance)


def _compare_exactly(expected: str, output: str) -> str:
    if expected == output:
        return ""
    at = next(
        (place for place, (one, other) in enumerate(zip(expected, output, strict=False)) if one != other),
        min(len(expected), len(output)),
    )
    return f"character {at + 1} is {_shown(output[at : at + 1])}, expected {_shown(expected[at : at + 1])}"


def _lines(text: str) -> list[str]:
    """Return the lines without trailing blanks, and without empty lines at the end of the text."""
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _compare_pieces(unit: str, expected: list[str], output: list[str]) -> str:
    for number, (wanted, got) in enumerate(zip_longest(expected, output), 1):
        if wanted != got:
            return f"{unit} {number} is {_shown(got)}, expected {_shown(wanted)}"
    return ""


def _compare_floats(expected: list[str], output: list[str], tolerance: float) -> str:
    for number, (wanted, got) in enumerate(zip_longest(expected, output), 1):
        if wanted != got and not _close(wanted, got, tolerance):
            return f"token {number} is {_shown(got)}, expected {_shown(wanted)} within {tolerance:g}"
    return ""


def _close(wanted: str | None, got: str | None, tolerance: float) -> bool:
    one, other = _number(wanted), _number(got)
    if wanted is None or got is None or one is None or other is None or (_whole(wanted) and _whole(got)):
        return False  # two whole numbers must be equal
    if _is_inf_or_nan(wanted) or _is_inf_or_nan(got):  # inf and nan are close only to themselves
        return (
            _is_inf_or_nan(wanted) and _is_inf_or_nan(got) and (one == other or (math.isnan(one) and math.isnan(other)))
        )
    if _beyond(wanted, one) or _beyond(got, other):
        return _close_as_decimals(wanted, got, tolerance)
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


def _whole(text: str) -> bool:
    return text.lstrip("+-").isdigit() and text not in ("+0", "-0")


def _number(text: str | None) -> float | None:
    # float() also takes "1_000", digits of other scripts, and blanks. No printf writes those.
    if text is None or not text.isascii() or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _is_inf_or_nan(text: str) -> bool:
    return text.lstrip("+-")[:1].isalpha()


def _beyond(text: str, value: float) -> bool:
    """Return whether a numeral is too large or too small for a float."""
    return math.isinf(value) or (value == 0 and bool(re.search("[1-9]", re.split("[eE]", text)[0])))


def _close_as_decimals(wanted: str, got: str, tolerance: float) -> bool:
    one, other = (_EXACT.create_decimal(text) for text in (wanted, got))
    if not (one.is_finite() and other.is_finite()):  # the exponent is too large for a decimal too
        return False
    difference = _EXACT.abs(_EXACT.subtract(one, other))
    allowed = _EXACT.multiply(decimal.Decimal(tolerance), max(_EXACT.abs(one), _EXACT.abs(other)))
    return difference <= max(allowed, decimal.Decimal(tolerance))


_EXACT = decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])


def _shown(piece: str | None) -> str:
    if piece is None or piece == "":
        return "missing" if piece is None else "nothing"
    return repr(piece if len(piece) <= _SHOWN else piece[: _SHOWN - 3] + "...")
