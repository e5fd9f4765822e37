"""The order in which runs are admitted, tested with runs that are only names."""

from __future__ import annotations

from typing import Any, cast

import pytest

from stockade.core.launch import Launch
from stockade.warden import admission, capacity
from stockade.warden.admission import Admission


class Named:
    """Stands in for a run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.gone = False
        self.refused = ""
        self.due = 0.0

    def refuse(self, message: str) -> None:
        self.refused = message

    def expect_instance(self, due: float) -> None:
        self.due = due


def by(caller: int) -> Launch:
    return Launch(argv=(), environment={}, steps=(), caller=caller)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(admission, "_AT_ONCE", 1)
    return []


@pytest.fixture
def admission_queue(begun: list[str]) -> Admission:
    return Admission(cast(Any, lambda run, _launch: begun.append(run.name)))


def asked(admission_queue: Admission, name: str, caller: int) -> Any:
    run = Named(name)
    admission_queue.ask(cast(Any, run), by(caller))
    return run


def test_callers_take_turns_in_order(admission_queue: Admission, begun: list[str]) -> None:
    runs = {name: asked(admission_queue, name, int(name[0])) for name in ("1a", "1b", "1c", "1d", "2a", "3a", "2b")}
    assert begun == ["1a"]
    while len(begun) < len(runs):
        admission_queue.begun(runs[begun[-1]])
    assert begun == ["1a", "1b", "2a", "3a", "1c", "2b", "1d"]


def test_gone_run_is_passed_over(admission_queue: Admission, begun: list[str]) -> None:
    first, second, _ = (asked(admission_queue, name, 1) for name in "abc")
    second.gone = True
    admission_queue.leave(second)
    admission_queue.leave(first)
    assert begun == ["a", "c"]


def test_run_past_queue_bound_is_refused(
    admission_queue: Admission, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "MOST_WAITING", 2)
    runs = [asked(admission_queue, str(number), number) for number in range(4)]
    assert [run.refused for run in runs[:3]] == [""] * 3
    assert "1 runs are active" in runs[3].refused
    assert "short of processors for more, and 2 wait already" in runs[3].refused


def test_many_failing_runs_exhaust_no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_AT_ONCE", 1)
    failed = []

    def fail(run: Any, _launch: Launch) -> None:
        failed.append(run)
        if len(failed) > 1:
            admission_queue.leave(run)

    admission_queue = Admission(cast(Any, fail))
    runs = [asked(admission_queue, str(number), 1) for number in range(5000)]
    admission_queue.leave(runs[0])
    assert failed == runs


def test_failing_begin_refuses_that_run_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_AT_ONCE", 1)
    begun: list[str] = []

    def begin(run: Any, _launch: Launch) -> None:
        if run.name == "bad":
            raise OSError("no descriptor")
        begun.append(run.name)

    admission_queue = Admission(cast(Any, begin))
    first, bad, last = (asked(admission_queue, name, 1) for name in ("first", "bad", "last"))
    admission_queue.begun(first)  # must not raise the error of the next run
    admission_queue.leave(bad)
    assert begun == ["first", "last"] and "no descriptor" in bad.refused and not (first.refused or last.refused)


def test_capacities_have_figure_and_name() -> None:
    found = list(capacity.capacities())
    assert found and all(capacity >= 0 and name for capacity, name in found)


def test_released_run_may_ask_again(begun: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits for an interpreter takes no capacity, not even from itself."""
    admission_queue = Admission(cast(Any, lambda run, _launch: begun.append(run.name)))
    monkeypatch.setattr(admission_queue, "_descriptors", 1)
    first = asked(admission_queue, "first", 1)
    second = asked(admission_queue, "second", 2)
    assert begun == ["first"]
    admission_queue.leave(first)
    assert begun == ["first", "second"]
    admission_queue.leave(second)
    admission_queue.ask(first, by(1))
    assert begun == ["first", "second", "first"]
