"""Whether an output is the one that was wanted: pure functions on text. Each returns a reason, empty where it is."""

from __future__ import annotations

import decimal
import math
import re
from itertools import zip_longest

from stockade.batch.records import Case

_SHOWN = 60


def difference(case: Case, output: str) -> str:
    """Return the first thing in ``output`` that is not as ``case`` expects it, in a sentence; empty if none."""
    if case.expected is None:
        return ""
    match case.compare:
        case "exact":
            return _exact(case.expected, output)
        case "lines":
            return _pieces("line", _lines(case.expected), _lines(output))
        case "tokens":
            return _pieces("token", case.expected.split(), output.split())
        case "floats":
            return _floats(case.expected.split(), output.split(), case.tolerance)


def _exact(expected: str, output: str) -> str:
    if expected == output:
        return ""
    at = next(
        (place for place, (one, other) in enumerate(zip(expected, output, strict=False)) if one != other),
        min(len(expected), len(output)),
    )
    return f"character {at + 1} is {_shown(output[at : at + 1])}, expected {_shown(expected[at : at + 1])}"


def _lines(text: str) -> list[str]:
    """Return the lines without the blanks at their ends and the empty lines at the end of all."""
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _pieces(word: str, expected: list[str], output: list[str]) -> str:
    for number, (wanted, got) in enumerate(zip_longest(expected, output), 1):
        if wanted != got:
            return f"{word} {number} is {_shown(got)}, expected {_shown(wanted)}"
    return ""


def _floats(expected: list[str], output: list[str], tolerance: float) -> str:
    for number, (wanted, got) in enumerate(zip_longest(expected, output), 1):
        if wanted != got and not _close(wanted, got, tolerance):
            return f"token {number} is {_shown(got)}, expected {_shown(wanted)} within {tolerance:g}"
    return ""


def _close(wanted: str | None, got: str | None, tolerance: float) -> bool:
    one, other = _number(wanted), _number(got)
    if wanted is None or got is None or one is None or other is None or (_whole(wanted) and _whole(got)):
        return False  # of whole numbers none is nearly another
    if _is_word(wanted) or _is_word(got):  # inf or nan, which only stands for the same word
        return _is_word(wanted) and _is_word(got) and (one == other or (math.isnan(one) and math.isnan(other)))
    if _beyond(wanted, one) or _beyond(got, other):
        return _close_as_decimals(wanted, got, tolerance)
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


def _whole(text: str) -> bool:
    return text.lstrip("+-").isdigit() and text not in ("+0", "-0")


def _number(text: str | None) -> float | None:
    # float() takes "1_000", other scripts' digits and blanks as well, which no printf writes
    if text is None or not text.isascii() or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _is_word(text: str) -> bool:
    return text.lstrip("+-")[:1].isalpha()


def _beyond(text: str, value: float) -> bool:
    """Return whether a numeral is too large or too small for a float."""
    return math.isinf(value) or (value == 0 and bool(re.search("[1-9]", re.split("[eE]", text)[0])))


def _close_as_decimals(wanted: str, got: str, tolerance: float) -> bool:
    one, other = (_EXACT.create_decimal(text) for text in (wanted, got))
    if not (one.is_finite() and other.is_finite()):  # an exponent that no decimal has either
        return False
    difference = _EXACT.abs(_EXACT.subtract(one, other))
    allowed = _EXACT.multiply(decimal.Decimal(tolerance), max(_EXACT.abs(one), _EXACT.abs(other)))
    return difference <= max(allowed, decimal.Decimal(tolerance))


_EXACT = decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])


def _shown(piece: str | None) -> str:
    if piece is None or piece == "":
        return "missing" if piece is None else "nothing"
    return repr(piece if len(piece) <= _SHOWN else piece[: _SHOWN - 3] + "...")
