"""Plain values that hold no other values, as JSON data: numbers, text, bytes, dates.

``None``, booleans, text, short integers and finite floats stand for themselves. Everything else is an array of a tag
and texts or numbers.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from typing import Any

_SHORT_INTEGER = 1 << 63
_ODD_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_HEX = re.compile(r"-?0x[0-9a-f]+")
_DECIMAL = re.compile(r"-?(\d+(\.\d*)?([eE][+-]?\d+)?|Infinity|NaN)", re.ASCII)
_LONGEST_FLOAT = 40


class CodecError(ValueError):
    """The value cannot cross: it is not plain data, is too large, or is not in the form that ``encode`` writes."""


def encode_value(value: Any) -> Any:
    """Return a value as JSON data. Raises ``CodecError``, naming the type, if that is not possible."""
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    known = _ENCODERS.get(f"{kind.__module__}.{kind.__qualname__}")
    encoded_value = known(value) if known is not None else None
    if encoded_value is None:
        raise CodecError(f"a value of type {type_name(value)}")
    return encoded_value


def read(tag: str, items: list[Any]) -> Any:
    """Return the value of a tag and its items from an untrusted sender. Raises ``CodecError``."""
    try:
        return _READERS[tag](*items)
    except (ArithmeticError, KeyError, TypeError, ValueError):
        raise CodecError("a tag that is not known, or does not allow what follows it") from None


def read_plain(data: Any) -> Any:
    """Return the value of JSON data that is not an array."""
    if type(data) is float and not math.isfinite(data):  # 1e999
        raise CodecError("a number out of range")
    return data


def exact(base: Any, value: Any) -> Any:
    """Return an instance of a subclass of ``base`` as a value of ``base`` itself."""
    if base is str:
        return str.__str__(value)
    if base is bytes:
        return bytes(memoryview(value))
    return complex.__add__(value, 0) if base is complex else base.__pos__(value)


def plain_number(value: Any) -> Any:
    """Return the value of a numpy scalar. Arrays, and scalars without a Python type, stay as they are."""
    return value.item() if getattr(value, "shape", None) == () and type(value).__name__ != "ndarray" else value


def type_name(value: object) -> str:
    """Return the name of a value's type in a printable and short form."""
    kind = type(value)
    module = getattr(kind, "__module__", "builtins")
    name = str(kind.__name__) if module in ("builtins", "answer", "test") else f"{module}.{kind.__name__}"
    return "".join(c if c.isprintable() else "?" for c in name[:80])


def read_bytes(text: Any) -> bytes:
    """Return the bytes of a text in base64. Raises ``ValueError`` or ``TypeError``."""
    return base64.b64decode(text, validate=True)


def encode_bytes(data: bytes | bytearray) -> str:
    """Return bytes in base64."""
    return base64.b64encode(data).decode()


def _refuse(data: Any) -> Any:
    raise ValueError(data)


def _encode_integer(value: int) -> Any:
    return value if -_SHORT_INTEGER < value < _SHORT_INTEGER else ["i", hex(value)]


def _integer(text: str) -> int:
    return int(text, 16) if _HEX.fullmatch(text) else int(_refuse(text))


def _short_integer(value: Any) -> int:
    return value if type(value) is int else int(_refuse(value))


def _part(text: str) -> float:
    return float(text) if len(text) < _LONGEST_FLOAT else float(_refuse(text))


def _decimal(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text) if _DECIMAL.fullmatch(text) else _refuse(text)


def _encode_decimal(value: Any) -> Any:
    return ["D", str(value)] if _DECIMAL.fullmatch(str(value)) else None


def _fraction(one: str, other: str) -> Any:
    from fractions import Fraction

    return Fraction(_integer(one), _integer(other))


def _encode_time(value: Any) -> Any:
    if getattr(value, "tzinfo", None) is not None:
        raise CodecError(f"a {type(value).__name__} with a time zone")
    return ["T", type(value).__name__, value.isoformat()] if not getattr(value, "fold", 0) else None


def _time(name: str, text: str) -> Any:
    import datetime

    kinds: dict[str, Any] = {"date": datetime.date, "time": datetime.time, "datetime": datetime.datetime}
    made = kinds[name].fromisoformat(text)
    return made if getattr(made, "tzinfo", None) is None else _refuse(text)


def _span(days: Any, seconds: Any, microseconds: Any) -> Any:
    import datetime

    return datetime.timedelta(*map(_short_integer, (days, seconds, microseconds)))


_ENCODERS: dict[str, Callable[[Any], Any]] = {
    "builtins.int": _encode_integer,
    "builtins.float": lambda value: value if math.isfinite(value) else ["f", repr(value)],
    "builtins.bytes": lambda value: ["b", encode_bytes(value)],
    "builtins.complex": lambda value: ["c", repr(value.real), repr(value.imag)],
    "builtins.range": lambda value: ["R", *map(hex, (value.start, value.stop, value.step))],
    "decimal.Decimal": _encode_decimal,
    "fractions.Fraction": lambda value: ["Q", hex(value.numerator), hex(value.denominator)],
    "datetime.date": _encode_time,
    "datetime.time": _encode_time,
    "datetime.datetime": _encode_time,
    "datetime.timedelta": lambda value: ["S", value.days, value.seconds, value.microseconds],
}
_READERS: dict[str, Callable[..., Any]] = {
    "i": _integer,
    "f": lambda text: _ODD_FLOATS[text],
    "b": read_bytes,
    "c": lambda real, imaginary: complex(_part(real), _part(imaginary)),
    "R": lambda start, stop, step: range(*map(_integer, (start, stop, step))),
    "D": _decimal,
    "Q": _fraction,
    "T": _time,
    "S": _span,
}
