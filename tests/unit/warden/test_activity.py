"""The look at the CPU time of all guests together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from stockade.warden.activity import Activity


def test_activity_tells_of_cpu_time_that_has_grown():
    cpu: list[float | None] = [1.0]
    activity = Activity()
    assert not activity.look(0.0)
    assert activity.next_look == float("inf")  # without groups no meter sleeps
    activity.tree = cast(Any, SimpleNamespace(cpu_seconds=lambda: cpu[0]))
    assert activity.look(0.0)  # the guests may have run before
    cpu[0] = 2.0
    assert not activity.look(0.05)
    assert activity.next_look == 0.1
    assert [activity.look(now) for now in (0.1, 0.2, 0.3)] == [True, False, False]
    cpu[0] = None  # where the kernel gives no figure, each meter looks for itself
    assert [activity.look(now) for now in (0.4, 0.5)] == [True, True]
