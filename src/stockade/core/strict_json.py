"""JSON as every reader takes it: the one function by which this package writes it."""

from __future__ import annotations

import json
import re
from typing import Any

_ESCAPES = re.compile(r"\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(\\ud[89a-f][0-9a-f]{2})")


def dumps(data: Any, *, indent: int | None = None, compact: bool = False, sort_keys: bool = False) -> str:
    """Return ``data`` as JSON in plain ASCII. Raises ``ValueError`` for infinities and for what is not a number.

    Half of a surrogate pair is no character, and strict readers refuse it: U+FFFD takes its place.
    """
    separators = (",", ":") if compact else None
    text = json.dumps(data, allow_nan=False, indent=indent, separators=separators, sort_keys=sort_keys)
    if "\\ud" not in text:
        return text
    return _ESCAPES.sub(lambda found: "\\ufffd" if found[1] else found[0], text)
