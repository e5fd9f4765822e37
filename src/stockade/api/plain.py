"""Plain data: what passes between a caller and a guest as JSON, and comes back equal."""

from __future__ import annotations

import math
from typing import Any

from stockade.core.errors import JobError

_DEEPEST = 100


def check_plain(value: Any, place: str, depth: int = 0) -> None:
    """Raise ``JobError``, naming the place, unless ``value`` is plain data."""
    if depth > _DEEPEST:
        raise JobError(f"{place[:200]} is nested more than {_DEEPEST} levels deep")
    if value is None or type(value) in (bool, int, str):
        return
    if type(value) is float and math.isfinite(value):
        return
    if type(value) is list:
        for number, item in enumerate(value):
            check_plain(item, f"{place}[{number}]", depth + 1)
        return
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise JobError(f"{place[:200]} has the key {key!r:.80}; keys of plain data are texts")
            check_plain(item, f"{place}[{key!r:.40}]", depth + 1)
        return
    raise JobError(
        f"{place[:200]} = {value!r:.80} is not plain data; pass None, bools, integers, finite floats, texts, "
        f"lists or dictionaries"
    )
