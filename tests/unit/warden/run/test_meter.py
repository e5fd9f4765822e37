"""The meter's clock, also for a run that ends before its init reports ``exec``."""

from __future__ import annotations

import os
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stockade.core.launch import Groups, Watch
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


class _Group:
    """Control groups that count CPU time alone. ``cpu`` is what they have counted."""

    counts_cpu, counts_memory, in_tree, cpu, tasks = True, False, True, 0.0, 3

    def cpu_seconds(self) -> float:
        return self.cpu

    def look(self) -> int:
        return self.tasks

    def forks_refused(self) -> int:
        return 0

    def memory_held(self, _limit: int = 0) -> int:
        return 0


def _meter_with(group: _Group, **limits: float) -> Meter:
    execution = SimpleNamespace(own_tasks=2, head=os.getpid(), group=group)
    meter = Meter(Watch(**limits), cast(Any, execution))
    meter.start(0.0, 0.0, 0)
    meter._begin = 0.0
    return meter


def test_meter_sleeps_until_its_group_runs():
    group = _Group()
    meter = _meter_with(group)
    meter.look(1.9)
    assert meter.next_look == pytest.approx(2.0)  # a run that has just begun is looked at
    meter.look(2.0)
    assert (meter.next_look, meter.still_since) == (float("inf"), 2.0)
    assert not meter.wake(3.0)
    group.cpu = 0.01
    assert meter.wake(3.1)
    assert (meter.next_look, meter.still_since) == (3.1, float("inf"))
    meter.look(3.1)
    assert (meter.next_look, meter.still_since) == (float("inf"), 3.1)


def test_usage_report_does_not_hide_use_from_a_look():
    group = _Group()
    meter = _meter_with(group)
    meter.look(2.0)
    group.cpu = 0.01
    assert meter.usage(2.05)["cpu_seconds"] == 0.01
    assert meter.wake(2.1)


def test_sleeping_meter_wakes_for_wall_time():
    meter = _meter_with(_Group(), wall_seconds=10)
    meter.look(2.0)
    assert meter.next_look == pytest.approx(8.0)
    assert meter.wake(8.0)


def test_meter_near_the_limit_of_cpu_time_stays_awake():
    group = _Group()
    group.cpu = 0.99
    meter = _meter_with(group, cpu_seconds=1)
    meter.look(2.0)
    assert 2.0 < meter.next_look < 2.02


def test_meter_of_a_container_stays_awake():
    group = _Group()
    group.in_tree = False  # the engine's groups are not below the warden's, so nothing would wake the meter
    meter = _meter_with(group)
    meter.look(2.0)
    assert meter.next_look == pytest.approx(2.1)


@pytest.mark.parametrize(("counts", "tasks", "near"), [(True, 9, ["processes"]), (False, None, [])])
def test_threads_of_an_engine_are_not_reported_as_processes(counts, tasks, near):
    group = _Group()
    group.tasks = 11
    meter = _meter_with(group, counts_tasks=counts)
    meter._groups = Groups(processes=10)
    assert [name for name, *_ in meter.look(2.0)] == near
    assert meter.usage(2.0)["processes"] == tasks
