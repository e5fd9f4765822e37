"""The fields that a backend refuses, by name."""

import pytest

from stockade import JobError, Policy
from stockade.backends.shared import refusals
from stockade.runs.job import Job

EVERYTHING = {name: f"no {name}" for name in (*refusals._OF_POLICIES, *refusals._OF_JOBS)}


def test_refused_fields_of_policy_come_with_their_reasons():
    policy = Policy(network="host", filesystem={"read": ["/srv"], "workspace": "/srv"})
    assert refusals.of_policy(policy, {"filesystem.read": "no paths", "security.host_uid": "no users"}) == {
        "filesystem.read": "no paths"
    }
    assert [*refusals.of_policy(policy, EVERYTHING)] == ["filesystem.read", "filesystem.workspace", "network='host'"]
    assert refusals.of_policy(Policy(), EVERYTHING) == {}


def test_refused_field_of_job_is_named():
    refusals.check("x", Job(argv=("a",)), EVERYTHING)
    refusals.check("x", Job(argv=("a",), inputs=("b",)), {"artifacts": "none"})
    with pytest.raises(JobError, match=r"^inputs: the x backend cannot give it: no inputs$"):
        refusals.check("x", Job(argv=("a",), inputs=("b",)), EVERYTHING)


def test_refused_field_that_nothing_looks_for_is_an_error():
    with pytest.raises(ValueError, match=r"there is no field filesystem\.raed to refuse"):
        refusals.refuses({"filesystem.raed": "", "inputs": ""})
