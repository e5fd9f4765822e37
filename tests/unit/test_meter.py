"""Time is told even of a run that was ended before its init could say that it had begun."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

from stockade._launch import Watch
from stockade.warden.meter import Meter


def _meter() -> Meter:
    slot = SimpleNamespace(cell=SimpleNamespace(init=os.getpid()), group=None)
    return Meter(Watch(), cast(Any, slot))


def test_the_wall_time_counts_from_the_hand_over_where_nothing_better_is_known():
    meter = _meter()
    meter.hand_over()
    meter.stop()
    assert not meter.report(None)["started"]
    assert meter.report(None)["wall_seconds"] > 0


def test_no_time_has_passed_before_the_hand_over():
    meter = _meter()
    meter.stop()
    assert meter.report(None)["wall_seconds"] == 0.0
