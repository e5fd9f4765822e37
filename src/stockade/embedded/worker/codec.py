"""Values as bytes between a caller and its worker. Data only: decoding calls nothing that the sender names.

A value is a tag of one byte and its content. All lengths and counts are big-endian numbers of four bytes. The caller
decodes what a script may have written after an escape. So each length is checked against the bytes that are there.
Nodes, depth, fractions and colliding keys are bounded before they are built.
"""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

MOST_BYTES = 64 * 1024 * 1024
MOST_NODES = 2_100_000
"""Values in one message: two arguments of the most nodes that the border lets through, and what is around them."""
MOST_DEPTH = 110
MOST_RATIONAL = 8192
"""Bytes of the numerator or denominator of a fraction: to reduce it takes time with the square of its size."""
MOST_RATIONALS = 1024 * 1024
"""Bytes of all fractions in one message."""
MOST_DECIMAL = 1024 * 1024
MOST_COLLIDING = 64
"""Keys of one container with the same hash. More would make an insertion slow on purpose."""

_LENGTH = struct.Struct(">I")
_FLOAT = struct.Struct(">d")
_COMPLEX = struct.Struct(">dd")
_FIXED = {b"f": _FLOAT, b"c": _COMPLEX}
_CONSTANTS: dict[bytes, Any] = {b"N": None, b"T": True, b"F": False}
_CONTAINERS: dict[Any, bytes] = {list: b"l", tuple: b"t", set: b"S", frozenset: b"z"}
_KINDS: dict[bytes, Any] = {tag: kind for kind, tag in _CONTAINERS.items()}
_SELF_HASHED = frozenset({str, bytes})
"""Types whose hash the sender cannot know: each process has a secret of its own."""


class CodecError(ValueError):
    """A value cannot be encoded, or bytes are not a value."""


def encode(value: Any, most: int = MOST_BYTES) -> bytes:
    """Return ``value`` as bytes. Raises ``CodecError`` if it is not data or takes more than ``most`` bytes."""
    encoder = _Encoder(most)
    try:
        encoder.add(value, 0)
    except RecursionError:
        raise CodecError("it is nested too deep for the stack") from None
    return b"".join(encoder.parts)


def decode(data: bytes) -> Any:
    """Return the value of ``data``, which may come from an attacker. Raises ``CodecError``."""
    decoder = _Decoder(data)
    try:
        value = decoder.value(0)
    except CodecError:
        raise
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise CodecError(f"bytes that are not a value: {type(error).__name__}") from None
    if decoder.at != len(data):
        raise CodecError("bytes after the value")
    return value


class _Encoder:
    """Appends the parts of a message, and counts them."""

    def __init__(self, most: int) -> None:
        self.parts: list[bytes] = []
        self._most, self._size = most, 0

    def add(self, value: Any, depth: int) -> None:
        """Append ``value``."""
        kind = type(value)
        if value is None or kind is bool:
            self._append(b"N" if value is None else b"T" if value else b"F")
        elif kind is int:
            self._sized(b"i", value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
        elif kind is str:
            self._reserve(len(value))
            self._sized(b"s", value.encode("utf-8", "surrogatepass"))
        elif kind is bytes:
            self._sized(b"b", value)
        elif kind is float:
            self._append(b"f" + _FLOAT.pack(value))
        elif depth >= MOST_DEPTH:
            raise CodecError(f"it is nested deeper than {MOST_DEPTH} levels")
        elif kind is dict:
            self._append(b"d" + _LENGTH.pack(len(value)))
            for key, item in value.items():
                self.add(key, depth + 1)
                self.add(item, depth + 1)
        elif kind in _CONTAINERS:
            self._append(_CONTAINERS[kind] + _LENGTH.pack(len(value)))
            for item in value:
                self.add(item, depth + 1)
        else:
            self._add_rare(value, kind, depth)

    def _add_rare(self, value: Any, kind: Any, depth: int) -> None:
        if kind is complex:
            self._append(b"c" + _COMPLEX.pack(value.real, value.imag))
        elif kind is Decimal:
            self._sized(b"D", str(value).encode("ascii"))
        elif kind is Fraction:
            parts = value.numerator, value.denominator
            if max(each.bit_length() for each in parts) >= MOST_RATIONAL * 8 - 8:
                raise CodecError(f"a part of a fraction has more than {MOST_RATIONAL:,} bytes")
            self._record(b"R", parts, depth)
        elif kind is datetime.timedelta:
            self._record(b"e", (value.days, value.seconds, value.microseconds), depth)
        elif kind is datetime.date:
            self._record(b"y", (value.year, value.month, value.day), depth)
        elif kind is datetime.time:
            self._record(b"h", _clock(value), depth)
        elif kind is datetime.datetime:
            self._record(b"m", (value.year, value.month, value.day, *_clock(value)), depth)
        elif kind is datetime.timezone:
            self._record(b"o", value.__getinitargs__(), depth)
        else:
            raise CodecError(f"a value of type {kind.__name__!r} is not data")

    def _record(self, tag: bytes, fields: tuple[Any, ...], depth: int) -> None:
        self._append(tag)
        self.add(fields, depth + 1)

    def _sized(self, tag: bytes, content: bytes) -> None:
        self._reserve(len(content))
        self._append(tag + _LENGTH.pack(len(content)))
        self._append(content)

    def _append(self, part: bytes) -> None:
        self._reserve(len(part))
        self._size += len(part)
        self.parts.append(part)

    def _reserve(self, size: int) -> None:
        if self._size + size > self._most:
            raise CodecError(f"it takes more than {self._most:,} bytes")


def _clock(value: Any) -> tuple[Any, ...]:
    if value.tzinfo is not None and type(value.tzinfo) is not datetime.timezone:
        raise CodecError(f"a time zone of type {type(value.tzinfo).__name__!r} is not data")
    return value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo


class _Decoder:
    """Reads one value after another."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0
        self._nodes = self._rationals = 0

    def value(self, depth: int) -> Any:
        """Return the next value."""
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise CodecError(f"more than {MOST_NODES:,} values")
        if depth > MOST_DEPTH + 1:
            raise CodecError(f"values nested deeper than {MOST_DEPTH} levels")
        tag = self._take(1)
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag in _KINDS:
            return self._container(_KINDS[tag], depth)
        if tag in _RECORDS:
            return self._record(tag, depth)
        if tag == b"d":
            return self._dictionary(depth)
        return self._scalar(tag)

    def _dictionary(self, depth: int) -> dict[Any, Any]:
        count, keys = self._count(2), _Keys()
        made = {}
        for _ in range(count):
            key = keys.checked(self.value(depth + 1))
            made[key] = self.value(depth + 1)
        if len(made) != count:
            raise CodecError("a key twice in a dictionary")
        return made

    def _container(self, kind: Any, depth: int) -> Any:
        items = [self.value(depth + 1) for _ in range(self._count(1))]
        if kind is set or kind is frozenset:
            keys = _Keys()
            made = kind(map(keys.checked, items))
            if len(made) != len(items):
                raise CodecError("an element twice in a set")
            return made
        return items if kind is list else kind(items)

    def _record(self, tag: bytes, depth: int) -> Any:
        size, whole, make = _RECORDS[tag]
        before = self.at
        fields = self.value(depth + 1)
        if type(fields) is not tuple or len(fields) not in size or not _are_whole(fields[:whole]):
            raise CodecError("a record with other fields than its type has")
        if tag == b"R":
            self._rationals += self.at - before
            if self.at - before > 2 * MOST_RATIONAL + 16 or self._rationals > MOST_RATIONALS:
                raise CodecError("fractions that are too large")
        return make(*fields)

    def _scalar(self, tag: bytes) -> Any:
        size = _FIXED.get(tag)
        if size is not None:
            numbers = size.unpack(self._take(size.size))
            return numbers[0] if tag == b"f" else complex(*numbers)
        make = _SIZED.get(tag)
        if make is None:
            raise CodecError("a tag that does not exist")
        return make(self._take(self._length()))

    def _count(self, least: int) -> int:
        """Return the number of elements that follow. Each takes at least ``least`` bytes."""
        count = self._length()
        if count * least > len(self._data) - self.at:
            raise CodecError("more elements than bytes")
        return count

    def _length(self) -> int:
        length: int = _LENGTH.unpack(self._take(4))[0]
        return length

    def _take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self._data):
            raise CodecError("a value that is cut off")
        data = self._data[self.at : end]
        self.at = end
        return data


class _Keys:
    """Notices keys whose hashes were made equal."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def checked(self, key: Any) -> Any:
        """Return ``key``, or raise ``CodecError``."""
        if type(key) not in _SELF_HASHED:
            known = hash(key)
            self._seen[known] = times = self._seen.get(known, 0) + 1
            if times > MOST_COLLIDING:
                raise CodecError(f"more than {MOST_COLLIDING} keys with the same hash")
        return key


def _are_whole(fields: tuple[Any, ...]) -> bool:
    return all(type(each) is int for each in fields)


def _decimal(text: bytes) -> Decimal:
    if len(text) > MOST_DECIMAL:
        raise CodecError(f"a decimal number of more than {MOST_DECIMAL:,} characters")
    return Decimal(text.decode("ascii"))


def _time(*fields: Any) -> datetime.time:
    hour, minute, second, micro, fold, zone = fields
    return datetime.time(hour, minute, second, micro, _zone(zone), fold=fold)


def _moment(*fields: Any) -> datetime.datetime:
    year, month, day, *clock = fields
    return datetime.datetime.combine(datetime.date(year, month, day), _time(*clock))


def _zone(zone: Any) -> datetime.timezone | None:
    if zone is not None and type(zone) is not datetime.timezone:
        raise CodecError("a time zone of another type")
    return zone


_SIZED: dict[bytes, Any] = {
    b"i": lambda content: int.from_bytes(content, "big", signed=True),
    b"s": lambda content: content.decode("utf-8", "surrogatepass"),
    b"b": lambda content: content,
    b"D": _decimal,
}
_RECORDS: dict[bytes, tuple[tuple[int, ...], int, Any]] = {
    b"R": ((2,), 2, Fraction),
    b"e": ((3,), 3, datetime.timedelta),
    b"y": ((3,), 3, datetime.date),
    b"h": ((6,), 5, _time),
    b"m": ((9,), 8, _moment),
    b"o": ((1, 2), 0, datetime.timezone),
}
"""By tag: how many fields a record has, how many of them are integers, and what makes the value."""
