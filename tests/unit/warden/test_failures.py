"""Failures in a row, counted by key."""

from __future__ import annotations

import pytest

from stockade.warden.failures import MOST_IN_A_ROW, Failures

_KEY, _OTHER = b"one", b"another"


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def failures(clock: Clock) -> Failures:
    return Failures(clock)


def test_failures_below_the_bound_are_tried_again(failures: Failures) -> None:
    for _ in range(MOST_IN_A_ROW - 1):
        failures.note(_KEY, "no memory")
    assert failures.refusal(_KEY) == ""


def test_failures_in_a_row_give_up_with_last_reason(failures: Failures) -> None:
    for reason in ("first", "second", "no memory"):
        failures.note(_KEY, reason)
    assert "failed 3 times in a row" in failures.refusal(_KEY) and "no memory" in failures.refusal(_KEY)
    assert failures.refusal(_OTHER) == ""


def test_success_clears_failures(failures: Failures) -> None:
    for _ in range(MOST_IN_A_ROW - 1):
        failures.note(_KEY, "no memory")
    failures.clear(_KEY)
    failures.note(_KEY, "no memory")
    assert failures.refusal(_KEY) == ""


def test_refused_key_is_tried_once_after_longer_and_longer_rest(failures: Failures, clock: Clock) -> None:
    for _ in range(MOST_IN_A_ROW):
        failures.note(_KEY, "no memory")
    for rest in (0.25, 0.5, 1.0):
        clock.now += rest - 0.01
        assert failures.refusal(_KEY)
        clock.now += 0.01
        assert failures.refusal(_KEY) == ""
        failures.note(_KEY, "no memory")
    for _ in range(1000):
        failures.note(_KEY, "no memory")
    clock.now += 30
    assert failures.refusal(_KEY) == ""


def test_remembered_failures_are_bounded(failures: Failures) -> None:
    for _ in range(MOST_IN_A_ROW):
        failures.note(_KEY, "no memory")
    for number in range(1000):
        failures.note(str(number).encode(), "no memory")
    assert failures.refusal(_KEY) == ""
