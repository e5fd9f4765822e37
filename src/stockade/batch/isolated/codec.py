"""Plain data as JSON: a test and an answer exchange values without trusting each other.

JSON has no tuples, sets or bytes, so every container becomes an array whose first element is a tag: ``["t", 1, 2]`` is
``(1, 2)``; see ``scalars`` for the rest. Decoding builds values of known types only. It calls no code that the sender
names, as pickle would.

Both sides number the mutable containers of a call in the same order. A container that occurs again is sent as a
reference, so aliases stay aliases, and a reply can say which argument has changed.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, deque
from typing import Any

from stockade.batch.isolated.named_tuples import names_of, read_names
from stockade.batch.isolated.scalars import (
    CodecError,
    encode_bytes,
    encode_value,
    exact,
    plain_number,
    read,
    read_bytes,
    read_plain,
    type_name,
)

MAX_BYTES = 64 << 20
"""The longest message where memory allows it; see ``jobs.longest_message``."""
MAX_DEPTH = 200
"""The deepest nesting."""
_MUTABLE: dict[str, Any] = {"l": list, "d": dict, "s": set, "B": bytearray, "q": deque, "C": Counter, "O": OrderedDict}
_FROZEN: dict[str, Any] = {"t": tuple, "z": frozenset}
_TAGS = {kind: tag for tag, kind in (*_MUTABLE.items(), *_FROZEN.items())}
_BASES = (*_TAGS, int, float, complex, str, bytes)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_UNTAGGED = (str, bool, type(None))
_WHOLE = (*_UNTAGGED, int)
"""Types whose values are their own JSON form."""


class UnequalError(CodecError):
    """The value belongs to a subclass of a plain type that defines its own comparison."""


class Objects:
    """The mutable containers of a call, numbered in the order in which they occur."""

    def __init__(self) -> None:
        self.known: list[Any] = []
        self._numbers: dict[int, int] = {}

    def wrap(self, value: Any, depth: int = MAX_DEPTH) -> Any:
        """Return ``value`` as JSON data. Raises ``CodecError``, naming the type, if the value cannot cross."""
        kind = type(value)
        if kind.__module__ == "numpy":
            return encode_value(plain_number(value))
        base = None if kind in _PLAIN else kind if kind in _TAGS else _base(value)
        if base is None:
            return encode_value(value)
        if base not in _TAGS:
            return encode_value(exact(base, value))
        number = self._numbers.get(id(value))
        if number is not None:
            return ["r", number]
        if depth == 0:
            raise CodecError(f"a value that is nested more than {MAX_DEPTH} deep")
        if _TAGS[base] in _MUTABLE:
            self._register(value)
        return self.content(base, value, depth)

    def content(self, base: Any, value: Any, depth: int = MAX_DEPTH) -> Any:
        """Return the content of a container, whether or not the container has a number."""
        tag = _TAGS[base]
        if issubclass(base, dict):
            return [tag, *([self.wrap(key, depth - 1), self.wrap(item, depth - 1)] for key, item in base.items(value))]
        if base is bytearray:
            return [tag, encode_bytes(value)]
        names = names_of(value) if base is tuple and type(value) is not tuple else []
        first = [tag, value.maxlen] if base is deque else ["n", *names] if names else [tag]
        return first + [
            item if type(item) in _UNTAGGED else self.wrap(item, depth - 1) for item in base.__iter__(value)
        ]

    def unwrap(self, data: Any, depth: int = MAX_DEPTH) -> Any:
        """Return the value of JSON data from an untrusted sender. Raises ``CodecError``."""
        if type(data) is not list:
            return read_plain(data)
        if not data or type(data[0]) is not str:
            raise CodecError("an array without a tag")
        tag, items = data[0], data[1:]
        if tag == "r":
            return self._reference(items)
        if tag not in _MUTABLE and tag not in _FROZEN and tag != "n":
            return read(tag, items)
        if depth == 0:
            raise CodecError(f"a value that is nested more than {MAX_DEPTH} deep")
        if tag == "n":
            kind, values = read_names(items)
            return kind._make(self._each(values, depth - 1))
        if tag in _FROZEN:
            return _filled(_FROZEN[tag], self._each(items, depth - 1))
        return self._mutable(tag, items, depth)

    def load(self, data: Any) -> Any:
        """Return what ``unwrap`` returns; raise ``CodecError`` also if the nesting exceeds the stack."""
        try:
            return self.unwrap(data)
        except RecursionError:
            raise CodecError("a value that is nested too deep for the stack") from None

    def replacement(self, container: Any, data: Any) -> Any:
        """Return the new content of ``container`` as a new container of its base type."""
        tag = data[0] if type(data) is list and data and type(data[0]) is str else ""
        if tag not in _MUTABLE or not isinstance(container, _MUTABLE[tag]):
            raise CodecError("an argument whose type has changed")
        try:
            return self._mutable(tag, data[1:], MAX_DEPTH, registered=False)
        except RecursionError:
            raise CodecError("a value that is nested too deep for the stack") from None

    def _register(self, container: Any) -> None:
        self._numbers[id(container)] = len(self.known)
        self.known.append(container)

    def _mutable(self, tag: str, items: list[Any], depth: int, *, registered: bool = True) -> Any:
        """Return a new container. It is registered before its content, as on the sending side."""
        made: Any = deque(maxlen=_bound(items)) if tag == "q" else _MUTABLE[tag]()
        if registered:
            self._register(made)
        try:
            if tag == "B":
                made += read_bytes(*items)
            elif isinstance(made, dict):
                _fill_dict(made, [self._pair(item, depth - 1) for item in items])
            elif tag == "s":
                made |= _filled(set, self._each(items, depth - 1))
            else:
                made.extend(self._each(items[1:] if tag == "q" else items, depth - 1))
        except CodecError:
            raise
        except (TypeError, ValueError):
            raise CodecError("bytes that are not base64, or a key that cannot be hashed") from None
        return made

    def _each(self, items: list[Any], depth: int) -> list[Any]:
        """Return the values of all items. Most items are their own values."""
        return [item if type(item) in _WHOLE else self.unwrap(item, depth) for item in items]

    def _pair(self, item: Any, depth: int) -> tuple[Any, Any]:
        if type(item) is not list or len(item) != 2:
            raise CodecError("a dictionary whose items are not pairs")
        return self.unwrap(item[0], depth), self.unwrap(item[1], depth)

    def _reference(self, items: list[Any]) -> Any:
        if len(items) == 1 and type(items[0]) is int and 0 <= items[0] < len(self.known):
            return self.known[items[0]]
        raise CodecError("a reference to a container that does not exist")


def replace(container: Any, content: Any) -> None:
    """Replace the content of ``container`` by that of ``content``, with the methods of its base type."""
    base = type(content)
    if base in (list, bytearray):
        base.__setitem__(container, slice(None), content)
    else:
        base.clear(container)
        (base.extend if base is deque else base.update)(container, content)


def encode(value: object) -> bytes:
    """Return ``value`` as a line of its own."""
    return to_line(Objects().wrap(value))


def decode(line: bytes) -> Any:
    """Return the value of a line from an untrusted sender."""
    return Objects().load(from_line(line))


def to_line(data: Any, most: int = MAX_BYTES) -> bytes:
    """Return JSON data as a line of at most ``most`` bytes."""
    try:
        line = json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
    except RecursionError:
        raise CodecError("a value that is nested too deep for the stack") from None
    if len(line) > most:
        raise CodecError(f"a message of {len(line)} bytes, where the bound for this limit on memory is {most}")
    return line


def from_line(line: bytes, most: int = MAX_BYTES) -> Any:
    """Return the JSON data of a line. Raises ``CodecError``."""
    if len(line) > most:
        raise CodecError(f"a message of more than {most} bytes")
    if not line.endswith(b"\n"):
        raise CodecError("a message that is cut off")
    try:
        return json.loads(line.decode("ascii"), parse_constant=_refuse, object_pairs_hook=_refuse)
    except CodecError:
        raise
    except (ValueError, RecursionError) as error:
        raise CodecError(f"a message that is not JSON: {type(error).__name__}") from None


def _base(value: Any) -> Any:
    """Return the plain type of which ``value`` is an instance, directly or by a subclass; ``None`` if it is of none."""
    kind = type(value)
    base = next((base for base in _BASES if isinstance(value, base)), None)
    if base is None or kind.__eq__ is base.__eq__:
        return base
    raise UnequalError(f"a value of type {type_name(value)}, which compares by rules of its own")


def _bound(items: list[Any]) -> int | None:
    if items and (items[0] is None or (type(items[0]) is int and 0 <= items[0] < 1 << 62)):
        bound: int | None = items[0]
        return bound
    raise CodecError("a deque without a bound")


def _filled(kind: Any, items: list[Any]) -> Any:
    try:
        made = kind(items)
    except TypeError:
        raise CodecError("a set with an element that cannot be hashed") from None
    if len(made) != len(items):
        raise CodecError("an element twice in a set")
    return made


def _fill_dict(made: dict[Any, Any], pairs: list[tuple[Any, Any]]) -> None:
    (dict if type(made) is Counter else type(made)).update(made, pairs)  # a Counter's own update adds
    if len(made) != len(pairs):
        raise CodecError("a key twice in a dictionary")


def _refuse(_: object) -> Any:
    raise CodecError("data that is not allowed in a message")
