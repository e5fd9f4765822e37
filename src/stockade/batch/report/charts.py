"""Bar charts as SVG. Sizes are attributes, because the page's policy forbids inline style."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_WIDTH, _LABEL, _ROW, _BAR = 370, 120, 22, 14
_LONGEST = 18


def bars(title: str, pairs: Sequence[tuple[str, int]]) -> str:
    """Return a figure with a bar for each (label, count)."""
    highest = max(count for _, count in pairs)
    rows = "".join(_bar(place, label, count, highest) for place, (label, count) in enumerate(pairs))
    height = _ROW * len(pairs)
    words = escape(f"{title}: " + ", ".join(f"{label} {count}" for label, count in pairs))
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" aria-label="{words}">'
        f"{rows}</svg></figure>"
    )


def _bar(place: int, label: str, count: int, highest: int) -> str:
    width_left = _WIDTH - _LABEL - 60
    length = max(1 if count else 0, round(width_left * count / max(1, highest)))
    top, text = place * _ROW, place * _ROW + _ROW - 7
    short = label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"
    kind = escape(label.split(":", maxsplit=1)[0].replace(" ", "_"))
    return (
        f'<text class="label" x="{_LABEL - 8}" y="{text}">{escape(short)}</text>'
        f'<rect class="bar {kind}" x="{_LABEL}" y="{top + 4}" width="{length}" height="{_BAR}" rx="2"/>'
        f'<text class="count" x="{_LABEL + length + 6}" y="{text}">{count:,}</text>'
    )
