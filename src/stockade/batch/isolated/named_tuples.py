"""Named tuples as JSON data: their values, and the names of their class and fields.

The receiver makes a class of its own with these names. The methods of the sender's class do not cross.
"""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache, partial
from typing import Any

from stockade.batch.isolated.scalars import CodecError

_MOST_FIELDS = 256
_make: Any = partial(namedtuple, rename=True)
"""Accepts names such as ``_1``, which the sender's class has if it renamed fields."""


def names_of(value: tuple[Any, ...]) -> list[Any]:
    """Return the name and the list of fields of a named tuple; an empty list if no receiver could make its class."""
    name, fields = type(value).__name__, getattr(type(value), "_fields", None)
    if type(fields) is not tuple or tuple.__len__(value) != len(fields):
        return []
    try:
        _class_of(name, fields)
    except CodecError:
        return []
    return [name, list(fields)]


def read_names(items: list[Any]) -> tuple[Any, list[Any]]:
    """Return the class that the first two items from an untrusted sender name, and the other items."""
    if len(items) < 2 or type(items[0]) is not str or type(items[1]) is not list:
        raise CodecError("a named tuple without names")
    if len(items[1]) != len(items) - 2:
        raise CodecError("a named tuple whose values do not fit its fields")
    return _class_of(items[0], tuple(items[1])), items[2:]


def _class_of(name: str, fields: tuple[Any, ...]) -> Any:
    if len(fields) > _MOST_FIELDS or any(type(each) is not str for each in fields):
        raise CodecError("a named tuple with too many fields, or with one that is not text")
    return _class(name, fields)


@lru_cache(maxsize=256)
def _class(name: str, fields: tuple[str, ...]) -> Any:
    try:
        found = _make(name, fields)
    except (ValueError, SyntaxError):  # the latter: two identifiers that are one after normalization
        raise CodecError("a named tuple with a name that no class may have") from None
    if found._fields != fields:
        raise CodecError("a named tuple with a field that no class may have")
    return found
