"""Plain data as one line of JSON: how a test and an answer talk without trusting each other.

JSON has no tuples, sets, bytes, infinities or keys that are no text, so everything but ``None``, booleans,
integers, finite floats and text is an array whose first element is a tag: ``["t", 1, 2]`` is ``(1, 2)``.
Decoding builds values of the exact built-in types and nothing else: it calls no code that the sender named,
as pickle would, so whatever comes out compares, hashes and prints as the reader's own values do.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

MAX_BYTES = 1 << 18
"""The longest line. It bounds memory too: a value takes at most some fifty times the bytes of its line."""
MAX_DEPTH = 50
"""The deepest nesting."""

_MAKERS: dict[str, type] = {"l": list, "t": tuple, "s": set, "z": frozenset}
_TAGS = {kind: tag for tag, kind in _MAKERS.items()}
_ODD_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class CodecError(ValueError):
    """It is no plain data, or too large, or not written as ``encode`` writes it."""


def encode(value: object) -> bytes:
    """Return ``value`` as a line. Only exact built-in types: a subclass may lie about what it holds."""
    try:
        line = json.dumps(_wrap(value, MAX_DEPTH), allow_nan=False, separators=(",", ":"))
    except CodecError:
        raise
    except (ValueError, RecursionError) as error:  # an integer with more digits than may be printed
        raise CodecError(f"cannot be written: {error}") from None
    if len(line) >= MAX_BYTES:
        raise CodecError(f"longer than {MAX_BYTES} bytes")
    return line.encode("ascii") + b"\n"


def decode(line: bytes) -> Any:
    """Return the value of a line that may have been written by anyone."""
    if len(line) > MAX_BYTES:
        raise CodecError(f"longer than {MAX_BYTES} bytes")
    if not line.endswith(b"\n"):
        raise CodecError("cut off")
    try:
        data = json.loads(line.decode("ascii"), parse_constant=_refuse, object_pairs_hook=_refuse)
    except CodecError:
        raise
    except (ValueError, RecursionError) as error:
        raise CodecError(f"no JSON: {type(error).__name__}") from None
    return _unwrap(data, MAX_DEPTH)


def _wrap(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in (bool, int, str, type(None)):
        return value
    if kind is float:
        return value if math.isfinite(value) else ["f", repr(value)]
    if kind is bytes:
        return ["b", base64.b64encode(value).decode()]
    if depth == 0:
        raise CodecError(f"nested more than {MAX_DEPTH} deep")
    if kind is dict:
        return ["d", *([_wrap(key, depth - 1), _wrap(item, depth - 1)] for key, item in value.items())]
    if kind in _TAGS:
        return [_TAGS[kind], *(_wrap(item, depth - 1) for item in value)]
    raise CodecError("holds something that is no plain data")  # no name: the type's is the answer's to choose


def _unwrap(data: Any, depth: int) -> Any:
    if type(data) is not list:
        return _scalar(data)
    tag, *items = data or [None]
    if tag == "f":
        return _odd_float(items)
    if tag == "b":
        return _bytes(items)
    if depth == 0:
        raise CodecError(f"nested more than {MAX_DEPTH} deep")
    try:
        if tag == "d":
            return _dict(items, depth - 1)
        if tag in _MAKERS:
            return _collection(_MAKERS[tag], [_unwrap(item, depth - 1) for item in items])
    except TypeError:
        pass  # a tag, an element of a set or a key that cannot be hashed
    raise CodecError("a list without a known tag, or with contents that its tag does not allow")


def _scalar(data: Any) -> Any:
    if type(data) is float and not math.isfinite(data):  # 1e999
        raise CodecError("a number out of range")
    return data


def _odd_float(items: list[Any]) -> float:
    if len(items) == 1 and type(items[0]) is str and items[0] in _ODD_FLOATS:
        return _ODD_FLOATS[items[0]]
    raise CodecError("no such float")


def _bytes(items: list[Any]) -> bytes:
    try:
        (text,) = items
        return base64.b64decode(text, validate=True)
    except (ValueError, TypeError):
        raise CodecError("no base64") from None


def _collection(kind: type, items: list[Any]) -> Any:
    made = kind(items)
    if len(made) != len(items):
        raise CodecError("an element twice in a set")
    return made


def _dict(items: list[Any], depth: int) -> dict[Any, Any]:
    made = {}
    for pair in items:
        if type(pair) is not list or len(pair) != 2:
            raise CodecError("a dictionary's items are pairs")
        made[_unwrap(pair[0], depth)] = _unwrap(pair[1], depth)
    if len(made) != len(items):
        raise CodecError("a key twice in a dictionary")
    return made


def _refuse(_: object) -> Any:
    raise CodecError("only arrays, text, numbers, true, false and null")
