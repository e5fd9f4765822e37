"""Find the position of each field in a file. The standard library's parsers do not report it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]
RunSlot = tuple[int, int]
"""Line and column, from 1."""

_MOST_LINES = 1000
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def in_toml(text: str) -> dict[Path, RunSlot]:
    """Return the position of each field of a valid TOML text, or nothing for a very long one.

    The text is parsed again and again, one line longer each time. A field that is new in a prefix stands in the lines
    between this prefix and the last valid one.
    """
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        return {}
    found: dict[Path, RunSlot] = {}
    begin = 0
    for end in range(1, len(lines) + 1):
        try:
            data = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
        for path in _paths(data):
            if path not in found:
                found[path] = _in_lines(lines, begin, end, path[-1])
        begin = end
    return found


def in_json(text: str) -> dict[Path, RunSlot]:
    """Return the position of each field of a valid JSON text."""
    return {path: _at(text, offset) for path, offset in _in_value(text, _skip(text, 0), ())}


def _paths(data: Any, path: Path = ()) -> Iterator[Path]:
    inner = data.items() if isinstance(data, Mapping) else ()
    for key, value in inner:
        yield (*path, key)
        yield from _paths(value, (*path, key))


def _in_lines(lines: list[str], begin: int, end: int, name: str) -> RunSlot:
    """Return the position of ``name`` in the lines from ``begin``, or of the first line with content."""
    pattern = re.compile(rf"""(?:^|[\s.,{{\["'])({re.escape(name)})(?=["'\s.=\]])""")
    numbers = [
        number for number in range(begin, end) if lines[number].strip() and not lines[number].lstrip().startswith("#")
    ]
    for number in numbers:
        match = pattern.search(lines[number])
        if match:
            return number + 1, match.start(1) + 1
    return (numbers[0] if numbers else begin) + 1, 1


def _in_value(text: str, at: int, path: Path) -> Iterator[tuple[Path, int]]:
    """Yield the fields and items of the value that begins at ``at``."""
    if text[at] not in "{[":
        return
    closing = "}" if text[at] == "{" else "]"
    number = 0
    at = _skip(text, at + 1)
    while text[at] != closing:
        begin = at
        if closing == "}":
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # the colon
        else:
            name = str(number)
        yield (*path, name), begin
        yield from _in_value(text, at, (*path, name))
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        number += 1
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _at(text: str, offset: int) -> RunSlot:
    line_start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, offset - line_start + 1
