"""The host uids that guests have where root starts them."""

from __future__ import annotations

import os

DEFAULT_RANGE = "2000000000-2000065535"  # above what systemd, useradd and container engines hand out
_VARIABLE = "STOCKADE_UID_RANGE"


def configured() -> range:
    """Return the uids that runs may have; raise ``ValueError`` when the variable for it is no range."""
    return parse_range(os.environ.get(_VARIABLE, DEFAULT_RANGE))


def first_uid() -> int:
    """Return a uid that such a run would take on, to try things with."""
    try:
        return configured().start
    except ValueError:  # said when a run asks for one
        return parse_range(DEFAULT_RANGE).start


def parse_range(text: str) -> range:
    """Return the uids that ``"first-last"`` names; raise ``ValueError`` when it is no such range, or holds 0."""
    first, dash, last = text.partition("-")
    if not (dash and first.isdigit() and last.isdigit() and 0 < int(first) <= int(last) < 2**32 - 1):
        raise ValueError(f"STOCKADE_UID_RANGE={text!r}: expected FIRST-LAST, two uids above 0")
    return range(int(first), int(last) + 1)
