"""Which container that waits a run gets, and how many wait, and how long."""

import pytest

from stockade.core.launch import ContainerOrder
from stockade.warden import loop
from stockade.warden.containers import prewarmed
from stockade.warden.containers.prewarmed import PrewarmedContainers


def order(create=b"1", prewarm=2, **fields):
    return ContainerOrder(socket="/s", create=create, prewarm=prewarm, idle_seconds=10.0, **fields)


class Handle:
    """A container that reports what a test says."""

    is_dead = is_ready = is_released = False

    def __init__(self, wanted):
        self.order = wanted.without_job()

    def attach(self, _events, listener):
        self.listener = listener

    def request(self):
        pass

    def release(self):
        self.is_released = True

    def become_ready(self):
        self.is_ready = True
        self.listener.on_ready()


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(prewarmed, "time", found)
    return found


@pytest.fixture
def made():
    return []


@pytest.fixture
def pool(made, clock):
    def make(wanted):
        made.append(Handle(wanted))
        return made[-1]

    return PrewarmedContainers(loop.Loop(), make, lambda: True)


def after_runs(pool, clock, *orders):
    for each in orders:
        pool.want(each)
    clock.now += 1
    pool.tick(clock.now)


def test_container_is_taken_once_by_an_equal_order(pool, clock, made):
    assert pool.take(order()) is None
    after_runs(pool, clock, order(job={"a": (b"x", 0o644)}))
    made[0].become_ready()
    assert pool.take(order(create=b"2")) is None
    assert pool.take(order(files={"hosts": (b"", 0o644)})) is None
    assert pool.take(order(job={"a": (b"y", 0o644)})) is made[0]
    assert pool.take(order()) is None


def test_ready_container_is_taken_first_and_a_dead_one_never(pool, clock, made):
    after_runs(pool, clock, order(), order())
    made[1].become_ready()
    assert pool.take(order()) is made[1]
    made[0].is_dead = True
    assert pool.take(order()) is None
    assert made[0].is_released


def test_container_of_another_kind_gives_way_at_the_bound(pool, clock, made):
    after_runs(pool, clock, order(), order(), order())
    assert len(made) == 2
    after_runs(pool, clock, order(create=b"2"))
    assert [each.is_released for each in made] == [True, False, False]
    after_runs(pool, clock, order(prewarm=0))
    assert len(made) == 3


def test_idle_time_begins_when_a_container_is_ready(pool, clock, made):
    after_runs(pool, clock, order())
    clock.now += 20
    pool.tick(clock.now)
    assert not made[0].is_released
    made[0].become_ready()
    assert pool.tick(clock.now) == clock.now + 10
    clock.now += 10
    assert pool.tick(clock.now) == float("inf")
    assert made[0].is_released


def test_shed_drops_all_and_makes_none(pool, clock, made):
    after_runs(pool, clock, order())
    pool.want(order())
    assert pool.shed()
    assert not pool.shed()
    clock.now += 1
    pool.tick(clock.now)
    assert [each.is_released for each in made] == [True]


def test_trouble_of_a_waiting_container_drops_it(pool, clock, made):
    after_runs(pool, clock, order())
    made[0].listener.on_trouble("x")
    assert made[0].is_released
    assert pool.take(order()) is None
