"""The JSON of stockade matches its schemas, and wrong data does not."""

from __future__ import annotations

import json

import pytest

import stockade
from stockade import Guarantee, GuestError, Outcome, Usage
from stockade.core.errors import CommitError, FieldProblem
from stockade.planning.denial import Denial
from stockade.policy.guarantees import Enforcement, Strength
from stockade.runs import schemas
from stockade.runs.result import LimitState, Met, NetworkRefusal, NetworkTarget, NetworkUse, Result
from stockade.workspace.artifacts import Refused
from stockade.workspace.change_set import ChangeSet
from stockade.workspace.changes import Change
from tests.support.schemas import faults

FULL = Result(
    Outcome.LIMIT_EXCEEDED,
    exit_code=1,
    signal=9,
    limit=Guarantee.MEMORY,
    limits_met={Guarantee.MEMORY: LimitState(Met.MET, "counted")},
    soft_memory=LimitState(Met.NOT_MET, "counted"),
    stdout_bytes=b"\xff",
    value={"a": [1, 2.5, None]},
    value_repr="x",
    error=GuestError("ValueError", "no"),
    usage=Usage(0.1, 0.2, 5, 1, 3),
    network=NetworkUse(
        requests=2,
        targets=(NetworkTarget("a.org:443", 1, 10, 20),),
        refusals=(NetworkRefusal("b.org:80", "no", 1),),
    ),
    backend="native",
    enforcement={Guarantee.MEMORY: Enforcement("cgroup", Strength.KERNEL)},
    shared="hash seed",
    cold="first",
    denials=(Denial("ptrace", 2, "why", "how"),),
    artifacts={"a.png": b"\0"},
    artifacts_refused=(Refused("b", "large"),),
    artifacts_error="gone",
    artifact_modes={"a.png": 0o644},
    changes=ChangeSet(items=(Change(path="x", kind="added", type="file", content=b"1"),), refused=(), error=None),
)
ERRORS = [
    stockade.PolicyError([FieldProblem("network", "'x'", "no", "argument")]),
    stockade.PlanError("native", {"memory": "none"}),
    stockade.JobError("no"),
    CommitError([Refused("a", "b")]),
]


@pytest.mark.parametrize("result", [FULL, Result(Outcome.COMPLETED)])
def test_result_matches_both_schemas(result: Result) -> None:
    assert not [*faults(json.loads(json.dumps(result.as_json())), schemas.result())]
    assert not [*faults(json.loads(json.dumps(result.to_dict())), schemas.result_dict())]


@pytest.mark.parametrize("name", ["result", "result-dict"])
def test_schema_names_every_field_of_a_result(name: str) -> None:
    data = FULL.as_json() if name == "result" else FULL.to_dict()
    made = schemas.SCHEMAS[name]()
    assert made["properties"].keys() == data.keys()
    for field in data:
        assert [*faults({each: data[each] for each in data if each != field}, made)]


@pytest.mark.parametrize("error", ERRORS)
def test_error_matches_schema(error: stockade.StockadeError) -> None:
    assert not [*faults(json.loads(json.dumps(error.as_json())), schemas.error())]
    assert error.as_json().keys() <= schemas.error()["properties"].keys()
    assert [*faults({"message": "x"}, schemas.error())]
