"""A caller makes way for its guest, but not where that takes long: then others want the processor as well."""

from __future__ import annotations

import pytest

from stockade.client import yielding


class Processor:
    """A clock, and a processor that others keep for ``slice`` seconds when it is yielded to them."""

    def __init__(self) -> None:
        self.now, self.slice, self.yields = 100.0, 0.0003, 0

    def monotonic(self) -> float:
        return self.now

    def sched_yield(self) -> None:
        self.yields += 1
        self.now += self.slice


@pytest.fixture
def processor(monkeypatch):
    made = Processor()
    monkeypatch.setattr(yielding, "_not_before", 0.0)
    monkeypatch.setattr(yielding.time, "monotonic", made.monotonic)
    monkeypatch.setattr(yielding.os, "sched_yield", made.sched_yield)
    return made


def test_each_run_makes_way_where_guests_are_done_soon(processor):
    for _ in range(5):
        yielding.make_way()
    assert processor.yields == 5


def test_nobody_makes_way_for_a_second_after_it_took_long(processor):
    processor.slice = 0.004
    for _ in range(5):
        yielding.make_way()
    assert processor.yields == 1
    processor.now += 0.9
    yielding.make_way()
    assert processor.yields == 1
    processor.now += 0.2
    yielding.make_way()
    assert processor.yields == 2
