"""Find every mistake in a policy file, each with its position."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stockade.cli import places
from stockade.core.errors import PolicyError
from stockade.policy.model import Policy, read

_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True)
class Mistake:
    """A mistake in a policy file: line and column from 1 (0 if unknown), and the parts of a ``FieldProblem``."""

    line: int
    column: int
    field: str
    value: str
    reason: str

    def __str__(self) -> str:
        """Return ``line:column: field = value: reason``, a form that editors understand."""
        where = f"{self.line}:{self.column}: " if self.line else " "
        return where + (f"{self.field} = {self.value}: {self.reason}" if self.field else self.reason)

    def as_json(self) -> dict[str, Any]:
        """Return the mistake as JSON-compatible data."""
        return vars(self)


def mistakes(file: str) -> list[Mistake]:
    """Return all mistakes in ``file``, in the order of its lines."""
    as_json = file.endswith(".json")
    try:
        text = Path(file).read_bytes().decode("utf-8")
    except (OSError, UnicodeError) as error:
        return [Mistake(0, 0, "", file, f"cannot be read: {getattr(error, 'strerror', None) or error}")]
    try:
        data = read(text, as_json=as_json)
    except (ValueError, RecursionError) as error:
        return [_of_syntax(error, text)]
    try:
        Policy.parse(data)
    except PolicyError as error:
        found = places.in_json(text) if as_json else places.in_toml(text)
        problems = [Mistake(*_place(found, p.field), p.field, p.value, p.reason) for p in error.problems]
        return sorted(problems, key=lambda each: (each.line, each.column))
    return []


def _place(found: Mapping[places.Path, places.RunSlot], field: str) -> places.RunSlot:
    """Return the position of a field, or of the innermost table that contains it."""
    names = tuple(field.split("."))
    return next((found[names[:length]] for length in range(len(names), 0, -1) if names[:length] in found), (0, 0))


def _of_syntax(error: Exception, text: str) -> Mistake:
    if isinstance(error, json.JSONDecodeError):
        return Mistake(error.lineno, error.colno, "", "", f"not JSON: {error.msg}")
    message = str(error)
    if not isinstance(error, tomllib.TOMLDecodeError):
        return Mistake(0, 0, "", "", message)
    match = _TOML_PLACE.search(message)
    if match is None or match[1] is None:
        line, column = len(text.splitlines()) or 1, 1
    else:
        line, column = int(match[1]), int(match[2])
    return Mistake(line, column, "", "", f"not TOML: {_TOML_PLACE.sub('', message)}")
