"""Choose the host uids of guests that root starts."""

from __future__ import annotations

import os

DEFAULT_RANGE = "2000000000-2000065535"  # above the uids that systemd, useradd and container engines assign
_VARIABLE = "STOCKADE_UID_RANGE"


def configured() -> range:
    """Return the uids that runs may use; raise ``ValueError`` if ``STOCKADE_UID_RANGE`` is not a valid range."""
    return parse_range(os.environ.get(_VARIABLE, DEFAULT_RANGE))


def first_uid() -> int:
    """Return a uid of the range, to probe the host with."""
    try:
        return configured().start
    except ValueError:  # reported when a run asks for a uid
        return parse_range(DEFAULT_RANGE).start


def parse_range(text: str) -> range:
    """Return the uids of ``"first-last"``; raise ``ValueError`` if the text is not such a range, or includes 0."""
    first, dash, last = text.partition("-")
    if not (dash and first.isdigit() and last.isdigit() and 0 < int(first) <= int(last) < 2**32 - 1):
        raise ValueError(f"STOCKADE_UID_RANGE={text!r}: expected FIRST-LAST, two uids above 0")
    return range(int(first), int(last) + 1)
