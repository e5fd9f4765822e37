"""A result is plain data, whichever way it was made."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from stockade import Guarantee, Outcome
from stockade.runs.result import LimitState, Met, Result, deferring

STATES = {Guarantee.MEMORY: LimitState(Met.NOT_MET, "counted")}
FIELDS = {"exit_code": 0, "stdout_bytes": b"said", "backend": "native"}


class Teller:
    """Tells of limits, and counts how often."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return dict(STATES)


def both():
    return Result(Outcome.COMPLETED, limits_met=STATES, **FIELDS), deferring(
        Teller(), outcome=Outcome.COMPLETED, **FIELDS
    )


def test_limits_are_put_into_words_when_they_are_asked_for_and_once():
    teller = Teller()
    result = deferring(teller, outcome=Outcome.COMPLETED, **FIELDS)
    assert result.ok
    assert result.check().stdout == "said"
    assert teller.asked == 0
    assert result.limits_met == result.limits_met == STATES
    assert teller.asked == 1


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
def test_it_is_what_it_is_if_all_was_said_at_once(way):
    said, later = both()
    assert way(later) == said
    assert said == way(later)
    assert repr(way(both()[1])) == repr(said)
    assert way(both()[1]).as_json() == said.as_json()


def test_it_does_not_change_and_has_nothing_else():
    _, later = both()
    with pytest.raises(dataclasses.FrozenInstanceError):
        later.outcome = Outcome.FAILED
    with pytest.raises(AttributeError, match="'Result' object has no attribute 'limits'"):
        later.limits  # noqa: B018
    with pytest.raises(TypeError):
        later.artifacts["x"] = b""
