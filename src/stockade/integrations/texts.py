"""Texts for a model: long ones are cut in the middle."""

from __future__ import annotations

from stockade.core.text import joined

MOST_TEXT = 30_000
"""Bytes of each text of an answer. What is longer is cut in the middle."""


def cut(data: bytes, omitted: int = 0, at: int = 0, most: int = MOST_TEXT) -> str:
    """Return ``data`` as text of ``most`` bytes at most. A mark in its middle gives the number of bytes left out.

    ``omitted`` bytes are missing already, at the place ``at``.
    """
    if len(data) <= most and not omitted:
        return data.decode("utf-8", "replace")
    at = at if omitted else len(data) // 2
    head, tail = data[:at], data[at:]
    half = most // 2 if tail else most
    kept = head[:half], tail[max(0, len(tail) - half) :]
    return joined(*kept, omitted + len(data) - sum(map(len, kept)))


def cut_text(text: str, most: int = MOST_TEXT) -> str:
    """Return ``text`` in the same way. Halves of surrogate pairs are replaced: JSON in UTF-8 cannot hold them."""
    return cut(text.encode("utf-8", "replace"), most=most)
