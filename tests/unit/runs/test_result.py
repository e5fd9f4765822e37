"""A result is plain data, whichever way it was made."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from stockade import Guarantee, Outcome
from stockade.runs.result import LimitState, Met, Result, deferring

STATES = {Guarantee.MEMORY: LimitState(Met.NOT_MET, "counted")}
FIELDS = {"exit_code": 0, "stdout_bytes": b"text", "backend": "native"}


class Counter:
    """Returns limit states, and counts the calls."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return dict(STATES)


def both():
    return Result(Outcome.COMPLETED, limits_met=STATES, **FIELDS), deferring(
        Counter(), outcome=Outcome.COMPLETED, **FIELDS
    )


def test_deferred_limits_are_computed_once_on_demand():
    counter = Counter()
    result = deferring(counter, outcome=Outcome.COMPLETED, **FIELDS)
    assert result.ok
    assert result.check().stdout == "text"
    assert counter.asked == 0
    assert result.limits_met == result.limits_met == STATES
    assert counter.asked == 1


@pytest.mark.parametrize(
    "way",
    [
        lambda result: result,
        copy.copy,
        copy.deepcopy,
        dataclasses.replace,
        lambda result: pickle.loads(pickle.dumps(result)),
        lambda result: Result(**{each.name: getattr(result, each.name) for each in dataclasses.fields(result)}),
    ],
)
def test_deferred_result_equals_a_complete_one(way):
    complete, later = both()
    assert way(later) == complete
    assert complete == way(later)
    assert repr(way(both()[1])) == repr(complete)
    assert way(both()[1]).as_json() == complete.as_json()


def test_result_is_frozen():
    _, later = both()
    with pytest.raises(dataclasses.FrozenInstanceError):
        later.outcome = Outcome.FAILED
    with pytest.raises(AttributeError, match="'Result' object has no attribute 'limits'"):
        later.limits  # noqa: B018
    with pytest.raises(TypeError):
        later.artifacts["x"] = b""


@pytest.mark.parametrize(
    ("name", "meant"),
    [("returncode", "exit_code"), ("output", "stdout"), ("err", "stderr"), ("artefacts", "artifacts")],
)
def test_result_attribute_of_another_name_suggests_ours(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean '{meant}'"):
        getattr(Result(Outcome.COMPLETED), name)
    assert not hasattr(Result(Outcome.COMPLETED), "zzzzz")
