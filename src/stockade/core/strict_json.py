"""JSON that every reader accepts. The package writes all its JSON with the one function here."""

from __future__ import annotations

import json
import re
from typing import Any

_ESCAPES = re.compile(r"\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(\\ud[89a-f][0-9a-f]{2})")


def dumps(data: Any, *, indent: int | None = None, compact: bool = False, sort_keys: bool = False) -> str:
    """Return ``data`` as JSON in plain ASCII. Raises ``ValueError`` for infinities and NaN.

    Strict readers refuse half of a surrogate pair, because it is not a character. U+FFFD replaces it.
    """
    separators = (",", ":") if compact else None
    text = json.dumps(data, allow_nan=False, indent=indent, separators=separators, sort_keys=sort_keys)
    if "\\ud" not in text:
        return text
    return _ESCAPES.sub(lambda found: "\\ufffd" if found[1] else found[0], text)


def digest(content: Any) -> str:
    """Return the SHA-256 of ``content`` as compact JSON with sorted names: how an audit log names a policy."""
    import hashlib  # slow to import

    return hashlib.sha256(dumps(content, compact=True, sort_keys=True).encode()).hexdigest()
