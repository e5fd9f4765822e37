"""Pictures and arrays as data, on both sides of the sandbox's wall. Everything else is left to the codec of scripts.

A picture crosses as its pixels, and an array as its numbers: no decoder of a file format runs over a guest's bytes.
Standard library only; the file is copied into the sandbox. Pillow and numpy are imported if such a value is there.
"""

from __future__ import annotations

import importlib
from typing import Any

MOST_BYTES = 8 << 20
"""Bytes of one message, on both sides. A longer one would end the interpreter, and with it all variables."""
_PICTURE, _ARRAY = "stockade:picture", "stockade:array"
_CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}
_NUMBERS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
"""Types of arrays that are the same on every machine."""


def packed(value: Any) -> Any:
    """Return ``value`` with its pictures, arrays and special texts and numbers as data."""
    kind = type(value)
    if kind is dict:
        return {packed(key): packed(item) for key, item in value.items()}
    if kind in (list, tuple, set, frozenset):
        return kind(map(packed, value))
    return _packed(value, kind)


def _packed(value: Any, kind: Any) -> Any:
    names = {f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in kind.__mro__}
    if "PIL.Image" in names:
        picture = value if value.mode in _CHANNELS else value.convert("RGBA")
        return {_PICTURE: [picture.mode, *picture.size, picture.tobytes()]}
    if "numpy.ndarray" in names and value.dtype.str[1:] in _NUMBERS:
        return {_ARRAY: [value.dtype.str, list(value.shape), value.tobytes()]}
    if "numpy.number" in names or "numpy.bool" in names or "numpy.bool_" in names:
        return value.item()
    if kind is not str and isinstance(value, str):
        return str.__str__(value)
    return value


def unpacked(data: Any) -> Any:
    """Return the value of packed data, which may come from an attacker. Raises ``ValueError``."""
    kind = type(data)
    if kind is dict:
        if len(data) == 1 and type(data.get(_PICTURE)) is list:
            return _picture(*data[_PICTURE])
        if len(data) == 1 and type(data.get(_ARRAY)) is list:
            return _array(*data[_ARRAY])
        return {unpacked(key): unpacked(item) for key, item in data.items()}
    if kind in (list, tuple, set, frozenset):
        return kind(map(unpacked, data))
    return data


def _picture(mode: Any = None, width: Any = None, height: Any = None, pixels: Any = None, *_: Any) -> Any:
    sizes = type(width) is type(height) is int and type(pixels) is bytes and type(mode) is str
    if not sizes or mode not in _CHANNELS or min(width, height) < 1 or width * height * _CHANNELS[mode] != len(pixels):
        raise ValueError("a picture whose size is not that of its pixels")
    return importlib.import_module("PIL.Image").frombytes(mode, (width, height), pixels)


def _array(name: Any = None, shape: Any = None, numbers: Any = None, *_: Any) -> Any:
    known = type(name) is str and name[:1] in ("<", ">", "|") and name[1:] in _NUMBERS
    known = known and type(shape) is list and type(numbers) is bytes
    if known and name[1:] == "b1" and numbers.translate(None, b"\0\1"):
        raise ValueError("an array of bools with other bytes than 0 and 1")
    if not known or len(shape) > 32 or not all(type(each) is int and each >= 0 for each in shape):
        raise ValueError("an array of no type that crosses")
    numpy = importlib.import_module("numpy")
    return numpy.frombuffer(numbers, dtype=numpy.dtype(name)).reshape(shape).copy()
