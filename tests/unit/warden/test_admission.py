"""Who waits for whom, with runs that are names only."""

from __future__ import annotations

from typing import Any, cast

import pytest

from stockade.core.launch import Launch
from stockade.warden import admission, capacity
from stockade.warden.admission import Admission


class Named:
    """A run that is a name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.gone = False
        self.refused = ""

    def refuse(self, message: str) -> None:
        self.refused = message


def by(caller: int) -> Launch:
    return Launch(argv=(), environment={}, steps=(), caller=caller)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(admission, "_AT_ONCE", 1)
    return []


@pytest.fixture
def door(begun: list[str]) -> Admission:
    return Admission(cast(Any, lambda run, _launch: begun.append(run.name)))


def asked(door: Admission, name: str, caller: int) -> Any:
    run = Named(name)
    door.ask(cast(Any, run), by(caller))
    return run


def test_callers_take_turns_and_each_one_s_runs_keep_their_order(door: Admission, begun: list[str]) -> None:
    runs = {name: asked(door, name, int(name[0])) for name in ("1a", "1b", "1c", "1d", "2a", "3a", "2b")}
    assert begun == ["1a"]
    while len(begun) < len(runs):
        door.begun(runs[begun[-1]])
    assert begun == ["1a", "1b", "2a", "3a", "1c", "2b", "1d"]


def test_who_waits_no_more_is_passed_over(door: Admission, begun: list[str]) -> None:
    first, second, _ = (asked(door, name, 1) for name in "abc")
    second.gone = True
    door.leave(second)
    door.leave(first)
    assert begun == ["a", "c"]


def test_past_the_bound_one_is_told_why(door: Admission, begun: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MOST_WAITING", 2)
    runs = [asked(door, str(number), number) for number in range(4)]
    assert [run.refused for run in runs[:3]] == [""] * 3
    assert (
        "1 runs are active" in runs[3].refused and "short of processors for more, and 2 wait already" in runs[3].refused
    )


def test_however_many_fail_at_once_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_AT_ONCE", 1)
    failed = []

    def fail(run: Any, _launch: Launch) -> None:
        failed.append(run)
        if len(failed) > 1:
            door.leave(run)

    door = Admission(cast(Any, fail))
    runs = [asked(door, str(number), 1) for number in range(5000)]
    door.leave(runs[0])
    assert failed == runs


def test_one_that_cannot_begin_costs_no_other_run_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_AT_ONCE", 1)
    begun: list[str] = []

    def begin(run: Any, _launch: Launch) -> None:
        if run.name == "bad":
            raise OSError("no descriptor")
        begun.append(run.name)

    door = Admission(cast(Any, begin))
    first, bad, last = (asked(door, name, 1) for name in ("first", "bad", "last"))
    door.begun(first)  # must not raise: it is the first run's own business that it has begun
    door.leave(bad)
    assert begun == ["first", "last"] and "no descriptor" in bad.refused and not (first.refused or last.refused)


def test_what_a_host_is_short_of_has_a_name() -> None:
    found = list(capacity.capacities())
    assert found and all(capacity >= 0 and name for capacity, name in found)


def test_who_waits_for_an_interpreter_is_in_nobody_s_way_nor_in_its_own(
    begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host with room for a single run has room for one that asks again."""
    door = Admission(cast(Any, lambda run, _launch: begun.append(run.name)))
    monkeypatch.setattr(door, "_descriptors", 1)
    first = asked(door, "first", 1)
    second = asked(door, "second", 2)
    assert begun == ["first"]
    door.leave(first)
    assert begun == ["first", "second"]
    door.leave(second)
    door.ask(first, by(1))
    assert begun == ["first", "second", "first"]
