"""The meter's clock, also for a run that ends before its init reports ``exec``."""

from __future__ import annotations

import os
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stockade.core.launch import Watch
from stockade.linux import tree
from stockade.warden.run.meter import Meter

_NOTHING = Watch()


def _meter(watch: Watch = _NOTHING) -> Meter:
    sample = partial(tree.sample, os.getpid())
    execution = SimpleNamespace(own_tasks=2, head=os.getpid(), group=None, sample=sample)
    return Meter(watch, cast(Any, execution))


def test_wall_time_without_exec_report_counts():
    meter = _meter()
    meter.hand_over()
    meter.stop()
    assert not meter.report(None).started
    assert meter.report(None).wall_seconds > 0


def test_wall_time_before_hand_over_is_zero():
    meter = _meter()
    meter.stop()
    assert meter.report(None).wall_seconds == 0.0


@pytest.mark.parametrize(("begun", "wall"), [(97.5, 2.5), (100.0, 0.0), (103.0, 0.0)])
def test_wall_time_counts_from_program_start(monkeypatch, begun, wall):
    monkeypatch.setattr("stockade.warden.run.meter.time.monotonic", lambda: 100.0)
    meter = _meter(Watch(wall_seconds=3))
    meter.hand_over()
    meter.start(begun, 0.0, 0)
    assert meter.usage(100.0)["wall_seconds"] == wall
    assert meter.next_look <= begun + 3
    meter.stop()
    assert meter.report(None).wall_seconds == wall


def test_wall_clock_stops_while_paused(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("stockade.warden.run.meter.time.monotonic", lambda: clock[0])
    meter = _meter(Watch(wall_seconds=10))
    meter.start(100.0, 0.0, 0)
    meter.pause(103.0)
    assert meter.look(200.0) == []
    assert meter.usage(200.0)["wall_seconds"] == 3.0
    meter.resume(200.0)
    assert [finding[:2] for finding in meter.look(205.5)] == [("wall_time", "near")]
    clock[0] = 206.0
    meter.stop()
    assert meter.report(None).wall_seconds == 9.0


def test_end_while_paused_keeps_earlier_time(monkeypatch):
    monkeypatch.setattr("stockade.warden.run.meter.time.monotonic", lambda: 100.0)
    meter = _meter()
    meter.start(100.0, 0.0, 0)
    meter.pause(101.0)
    meter.stop()
    assert meter.report(None).wall_seconds == 1.0


def test_near_and_met_are_reported_once_each(monkeypatch):
    monkeypatch.setattr("stockade.warden.run.meter.time.monotonic", lambda: 0.0)
    meter = _meter(Watch(wall_seconds=10))
    meter.start(0.0, 0.0, 0)
    found = [meter.look(now) for now in (7.9, 8.0, 8.5, 10.0, 10.1)]
    assert found == [[], [("wall_time", "near", 8.0, 10)], [], [("wall_time", "met", 10.0, 10)], []]


def test_next_look_is_due_before_limit(monkeypatch):
    monkeypatch.setattr("stockade.warden.run.meter.time.monotonic", lambda: 0.0)
    meter = _meter(Watch(wall_seconds=0.125))
    meter.start(0.0, 0.0, 0)
    assert meter.next_look == pytest.approx(0.1)
    meter.look(0.1)
    assert meter.next_look == pytest.approx(0.125)
