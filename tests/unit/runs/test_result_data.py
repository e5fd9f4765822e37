"""A result goes through JSON and comes back equal; anything else is refused with the place of the fault."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stockade import (
    Change,
    ChangeSet,
    Denial,
    Enforcement,
    Guarantee,
    GuestError,
    LimitState,
    Outcome,
    Result,
    ResultFormatError,
    StockadeError,
    Strength,
    Usage,
)
from stockade.runs.result import Met, deferring
from stockade.workspace.artifacts import Refused
from stockade.workspace.project import Project

TEXT = st.text(max_size=20) | st.sampled_from(["\udcff/name", "\0", "\ud800", "\U0001f600", "\u2028"])
WHOLE = st.integers(0, 2**70)
BYTES = st.binary(max_size=40)
GUARANTEE = st.sampled_from(Guarantee)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
STATE = st.builds(LimitState, st.sampled_from(Met), TEXT)
REFUSED = st.lists(st.builds(Refused, TEXT, TEXT), max_size=3).map(tuple)
CHANGE = st.builds(
    Change,
    path=TEXT,
    kind=st.sampled_from(["added", "changed", "deleted"]),
    type=st.sampled_from(["file", "folder", "link"]),
    mode=st.none() | WHOLE,
    content=st.none() | BYTES,
    target=st.none() | TEXT,
    before=st.none() | BYTES,
    old_mode=st.none() | WHOLE,
)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
RESULT = st.builds(
    Result,
    outcome=st.sampled_from(Outcome),
    exit_code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    limit=st.none() | GUARANTEE,
    limits_met=st.dictionaries(GUARANTEE, STATE, max_size=3),
    soft_memory=st.none() | STATE,
    stdout_bytes=BYTES,
    stderr_bytes=BYTES,
    stdout_omitted=WHOLE,
    stderr_omitted=WHOLE,
    stdout_head=WHOLE,
    stderr_head=WHOLE,
    value=VALUE,
    value_repr=st.none() | TEXT,
    error=st.none() | st.builds(GuestError, TEXT, TEXT, TEXT),
    usage=st.builds(Usage, NUMBER, NUMBER, st.none() | WHOLE, st.none() | WHOLE, WHOLE),
    backend=TEXT,
    enforcement=st.dictionaries(GUARANTEE, st.builds(Enforcement, TEXT, st.sampled_from(Strength), TEXT), max_size=3),
    shared=TEXT,
    denials=st.lists(st.builds(Denial, TEXT, WHOLE, TEXT, TEXT), max_size=2).map(tuple),
    denials_truncated=st.booleans(),
    artifacts=st.dictionaries(TEXT, BYTES, max_size=3),
    artifacts_refused=REFUSED,
    artifacts_error=st.none() | TEXT,
    artifact_modes=st.dictionaries(TEXT, WHOLE, max_size=3),
    changes=st.builds(ChangeSet, st.lists(CHANGE, max_size=3).map(tuple), REFUSED, st.none() | TEXT),
)
PLAIN = Result(Outcome.COMPLETED, exit_code=0, stdout_bytes=b"\xff", changes=ChangeSet((Change("a", "added", "file"),)))


def stored(**changed: Any) -> dict[str, Any]:
    return PLAIN.to_dict() | changed


@settings(deadline=None)
@given(RESULT)
def test_result_through_json_is_equal(result: Result) -> None:
    again = Result.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False)))
    assert again == result
    assert repr(again.changes) == repr(result.changes)
    assert again.as_json() == result.as_json()


def test_every_field_of_a_result_is_stored() -> None:
    assert {each.name for each in fields(Result)} == PLAIN.to_dict().keys() - {"format"}


def test_deferred_limits_are_stored() -> None:
    states = {Guarantee.MEMORY: LimitState(Met.NOT_MET, "counted")}
    result = deferring(lambda: states, outcome=Outcome.COMPLETED)
    assert Result.from_dict(result.to_dict()).limits_met == states


def test_project_is_not_stored() -> None:
    bound = replace(PLAIN, changes=replace(PLAIN.changes, project=Project("/secret/place", "overlay")))
    assert "/secret" not in json.dumps(bound.to_dict())
    again = Result.from_dict(bound.to_dict())
    assert again == bound and again.changes.project is None


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in PLAIN.to_dict().items() if key != name}


def with_change(**changed: Any) -> dict[str, Any]:
    data = PLAIN.to_dict()
    data["changes"]["items"][0] |= changed
    return data


@pytest.mark.parametrize(("data", "words"), [
    ([], "result: expected an object"),
    ({}, "result.format: expected 1"),
    (stored(format=2), "result.format: expected 1, .* not 2"),
    (stored(format=True), "result.format: expected 1"),
    (stored(surprise=1), "result: unknown field 'surprise'; its fields are outcome"),
    (without("usage"), "result: the field 'usage' is missing"),
    (stored(outcome="won"), "result.outcome: expected one of completed, .* not 'won'"),
    (stored(exit_code="0"), "result.exit_code: expected a whole number, not '0'"),
    (stored(exit_code=True), "result.exit_code: expected a whole number, not True"),
    (stored(denials_truncated=0), "result.denials_truncated: expected true or false"),
    (stored(stdout_bytes="%"), "result.stdout_bytes: expected bytes as base64, not '%'"),
    (stored(stdout_bytes="QR=="), "result.stdout_bytes: expected bytes as base64"),
    (stored(stdout_bytes="é"), "result.stdout_bytes: expected bytes as base64"),
    (stored(limits_met={"luck": {}}), "result.limits_met: expected one of cpu_time"),
    (stored(limits_met={"memory": {"state": "met"}}), r"result.limits_met\['memory'\]: the field 'evidence' is missing"),
    (stored(artifacts={"a": 1}), r"result.artifacts\['a'\]: expected bytes as base64, not 1"),
    (stored(denials="x"), "result.denials: expected a list"),
    (stored(value=float("nan")), "result.value: expected a value that JSON can hold"),
    (stored(value={"a": [b""]}), r"result.value\['a'\]\[0\]: expected a value that JSON can hold"),
    (with_change(kind="moved"), r"result.changes.items\[0\].kind: expected one of added, changed, deleted"),
    (with_change(extra=1), r"result.changes.items\[0\]: unknown field 'extra'"),
])  # fmt: skip
def test_malformed_data_is_refused_with_its_place(data: Any, words: str) -> None:
    with pytest.raises(ResultFormatError, match=words) as caught:
        Result.from_dict(data)
    assert isinstance(caught.value, StockadeError)


@pytest.mark.parametrize("value", [b"", {1: 2}, (1,), float("inf"), "\ud800\udc00", {"\ud800\udc00": 1}])
def test_value_that_json_would_change_is_refused(value: Any) -> None:
    with pytest.raises(ResultFormatError, match=r"result\.value: expected a value that JSON can hold"):
        replace(PLAIN, value=value).to_dict()


def test_value_nested_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(ResultFormatError, match="at most 200 levels deep"):
        replace(PLAIN, value=deep).to_dict()
