"""Failures in a row of something that the warden starts again for each run that needs it."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_IN_A_ROW = 3
"""After so many failures in a row, the warden stops trying."""
_REST_SECONDS, _LONGEST_REST_SECONDS = 0.25, 30.0
"""Seconds until the next try. The first figure doubles with each further failure, up to the second figure."""
_REMEMBERED = 256


class Failures:
    """Counts failures in a row for each key, and says when to stop trying."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[bytes, tuple[int, str, float]] = {}

    def note(self, key: bytes, reason: str) -> None:
        """Record a failure for ``reason``."""
        count = self._found.pop(key, (0, "", 0.0))[0]
        if len(self._found) >= _REMEMBERED:
            del self._found[next(iter(self._found))]  # the oldest one
        self._found[key] = count + 1, reason, self._clock()

    def clear(self, key: bytes) -> None:
        """Record a success."""
        self._found.pop(key, None)

    def refusal(self, key: bytes) -> str:
        """Return the reason for not trying now, or an empty text."""
        count, reason, last = self._found.get(key, (0, "", 0.0))
        if count < MOST_IN_A_ROW or self._clock() >= last + _rest(count):
            return ""
        return f"it has failed {count} times in a row, and is tried again {_rest(count):g} s later: {reason}"


def _rest(count: int) -> float:
    doubled = min(count - MOST_IN_A_ROW, 16)  # beyond that, the bound holds anyway
    return float(min(_REST_SECONDS * 2**doubled, _LONGEST_REST_SECONDS))
