"""Leaving the processor to the guest that was just woken up on it: what its caller has left to do is done beside it,
and not before it.
"""

from __future__ import annotations

import os
import time

_LONG_SECONDS = 0.002
"""More than a small guest takes, and less than the slice of somebody who wants the processor for longer."""
_PAUSE_SECONDS = 1.0
_not_before = 0.0


def make_way() -> None:
    """Let others have this processor that wait for it (sched_yield(2)), and go on when they sleep; the calling thread
    has nothing else to do than to wait for one of them. Other threads of this process go on: the GIL is let go of.

    Who yields comes after all that want this processor. Where it took long, programs keep it busy, or the guest does;
    then nobody makes way for a second.
    """
    global _not_before
    begin = time.monotonic()
    if begin < _not_before:
        return
    os.sched_yield()
    end = time.monotonic()
    if end - begin > _LONG_SECONDS:
        _not_before = end + _PAUSE_SECONDS
